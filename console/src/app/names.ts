const NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$/;

/** How long a name may be. */
export const MAX_NAME = 128;

/** Whether the server takes this as an id, or as the name of a tenant, a pool or a model. */
export const goodName = (name: string) => NAME.test(name.trim());
