import { Activity, Cpu, MessageSquare, ReceiptText, Users } from '@lucide/vue';

/** The rail's entries: route name, the key after `g`, and the routes that belong to it. */
export const navigation = [
  { name: 'requests', key: 'r', icon: ReceiptText, routes: ['requests', 'request', 'new-request'] },
  { name: 'evidence', key: 'e', icon: Activity, routes: ['evidence', 'evidence-pick', 'trace'] },
  { name: 'fleet', key: 'f', icon: Cpu, routes: ['fleet'] },
  { name: 'playground', key: 'p', icon: MessageSquare, routes: ['playground'] },
  { name: 'tenants', key: 't', icon: Users, routes: ['tenants'] },
] as const;

/** Where an entry leads: the evidence of no request in particular is a choice. */
export const routeOf = (name: string) => (name === 'evidence' ? 'evidence-pick' : name);
