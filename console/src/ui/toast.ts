import { ref } from 'vue';

export interface Toast {
  id: number;
  kind: 'ok' | 'bad';
  text: string;
}

const SHOWN_MS = 6000;
const toasts = ref<Toast[]>([]);
let last = 0;

/** Short news at the foot of the page; read out politely, gone after a while. */
export function useToasts() {
  const dismiss = (id: number) => {
    toasts.value = toasts.value.filter((t) => t.id !== id);
  };
  const show = (text: string, kind: Toast['kind'] = 'ok') => {
    const id = ++last;
    toasts.value = [...toasts.value.slice(-2), { id, kind, text }];
    setTimeout(() => dismiss(id), SHOWN_MS);
  };
  return { toasts, show, dismiss };
}
