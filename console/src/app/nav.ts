import {
  Activity,
  Boxes,
  Cpu,
  FlaskConical,
  House,
  MessageSquare,
  ReceiptText,
  Wallet,
} from '@lucide/vue';

/** The rail's entries: route name, the key after `g`, and the routes that belong to it. */
export const navigation = [
  { name: 'home', key: 'h', icon: House, routes: ['home'] },
  { name: 'requests', key: 'r', icon: ReceiptText, routes: ['requests', 'request', 'new-request'] },
  { name: 'evidence', key: 'e', icon: Activity, routes: ['evidence', 'evidence-pick', 'trace'] },
  { name: 'models', key: 'm', icon: Boxes, routes: ['models', 'model'] },
  { name: 'fleet', key: 'f', icon: Cpu, routes: ['fleet'] },
  { name: 'playground', key: 'p', icon: MessageSquare, routes: ['playground'] },
  { name: 'simulate', key: 's', icon: FlaskConical, routes: ['simulate'] },
  {
    name: 'budget',
    key: 't',
    icon: Wallet,
    routes: ['budget', 'limits', 'keys', 'grants', 'ledger'],
  },
] as const;

/** Where an entry leads: the evidence of no request in particular is a choice. */
export const routeOf = (name: string) => (name === 'evidence' ? 'evidence-pick' : name);
