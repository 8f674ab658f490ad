import { computed, ref } from 'vue';
import { closeSession, openSession, readSession } from '@/api/calls';
import { ApiError, useCredentials, type Session } from '@/api/client';

// The session is the server's cookie; this page knows only who it belongs to
// and the token that writes must carry. The key is never kept.
const current = ref<Session | null>(null);
const ended = ref(false);

useCredentials({
  csrfToken: () => current.value?.csrfToken,
  onUnauthorized: () => {
    if (current.value) ended.value = true;
    current.value = null;
  },
});

/** Asks the server whether the cookie still means a session. A server that is away is an error. */
export async function restoreSession(): Promise<void> {
  try {
    current.value = await readSession();
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    current.value = null;
  }
}

async function signIn(key: string): Promise<void> {
  current.value = await openSession(key.trim());
  ended.value = false;
}

async function signOut(): Promise<void> {
  try {
    await closeSession();
  } catch (error) {
    // Already ended on the server: that is what was wanted.
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  }
  current.value = null;
  ended.value = false;
}

/** Who is signed in, and what the role allows. */
export function useSession() {
  return {
    session: computed(() => current.value),
    /** True after the server ended a session that this page was using. */
    ended: computed(() => ended.value),
    isAdmin: computed(() => current.value?.role === 'admin'),
    /** A viewer reads; it never writes. */
    canWrite: computed(() => current.value !== null && current.value.role !== 'viewer'),
    /** Admin and viewer see every tenant. */
    seesAll: computed(() => current.value !== null && current.value.role !== 'tenant'),
    signIn,
    signOut,
  };
}
