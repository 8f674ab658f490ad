import type { Ref } from './calls';

// The names under which answers are cached; live.ts invalidates by them.
export const keys = {
  requests: ['requests'] as const,
  request: (r: Ref) => ['request', r.tenant, r.id] as const,
  journal: (r: Ref) => ['request', r.tenant, r.id, 'journal'] as const,
  logs: (r: Ref, replica = '') => ['logs', r.tenant, r.id, replica] as const,
  scaling: (r: Ref) => ['request', r.tenant, r.id, 'scaling'] as const,
  evidence: (r: Ref) => ['request', r.tenant, r.id, 'evidence'] as const,
  trace: (id: string) => ['trace', id] as const,
  models: ['models'] as const,
  nodes: ['nodes'] as const,
  // Below the nodes: whatever makes them stale makes an answer about them stale.
  fit: (mib: number, gpus: number) => ['nodes', 'fit', mib, gpus] as const,
  tenants: ['tenants'] as const,
  pools: ['pools'] as const,
  warmPools: ['warmpools'] as const,
  usage: ['usage'] as const,
  usageOf: (hours: number) => ['usage', hours] as const,
  apiKeys: ['keys'] as const,
  grants: ['grants'] as const,
  verify: ['ledger', 'verify'] as const,
  diagnostics: ['diagnostics'] as const,
};
