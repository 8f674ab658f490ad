import { ref, watch, type Ref } from 'vue';

/**
 * A preference that is kept in this browser. Storage may be blocked; the value
 * then lives as long as the page. Never used for keys or sessions.
 */
export function stored<T extends string>(name: string, allowed: readonly T[], fallback: T): Ref<T> {
  const value = ref(read(name, allowed, fallback)) as Ref<T>;
  watch(value, (v) => {
    try {
      localStorage.setItem(`modeldock.${name}`, v);
    } catch {
      // blocked: the choice holds for this page
    }
  });
  return value;
}

function read<T extends string>(name: string, allowed: readonly T[], fallback: T): T {
  try {
    const found = localStorage.getItem(`modeldock.${name}`);
    return allowed.find((a) => a === found) ?? fallback;
  } catch {
    return fallback;
  }
}
