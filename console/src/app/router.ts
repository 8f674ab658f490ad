import { createRouter, createWebHistory, type RouteRecordRaw } from 'vue-router';
import { isReachable } from '@/api/client';
import { useToasts } from '@/ui/toast';
import { i18n } from './i18n';
import { useSession } from './session';

declare module 'vue-router' {
  interface RouteMeta {
    /** Shown without a session. */
    open?: boolean;
  }
}

// One component under three addresses: the drawers open over the same list.
const requests = () => import('@/features/requests/Page.vue');

const routes: RouteRecordRaw[] = [
  { path: '/', redirect: '/home' },
  { path: '/home', name: 'home', component: () => import('@/features/home/Page.vue') },
  {
    path: '/signin',
    name: 'signin',
    component: () => import('@/features/session/Page.vue'),
    meta: { open: true },
  },
  {
    path: '/requests',
    component: requests,
    children: [
      { path: '', name: 'requests', component: { render: () => null } },
      { path: 'new', name: 'new-request', component: { render: () => null } },
      { path: ':tenant/:id', name: 'request', component: { render: () => null } },
    ],
  },
  {
    path: '/evidence',
    name: 'evidence-pick',
    component: () => import('@/features/evidence/PickPage.vue'),
  },
  {
    path: '/evidence/:tenant/:id',
    name: 'evidence',
    component: () => import('@/features/evidence/Page.vue'),
    props: true,
  },
  {
    path: '/traces/:requestId',
    name: 'trace',
    component: () => import('@/features/traces/Page.vue'),
    props: true,
  },
  {
    path: '/models',
    component: () => import('@/features/models/Page.vue'),
    children: [
      { path: '', name: 'models', component: { render: () => null } },
      { path: ':owner/:name', name: 'model', component: { render: () => null } },
    ],
  },
  { path: '/fleet', name: 'fleet', component: () => import('@/features/fleet/Page.vue') },
  {
    path: '/playground',
    name: 'playground',
    component: () => import('@/features/playground/Page.vue'),
  },
  {
    path: '/budget',
    component: () => import('@/features/budget/Page.vue'),
    children: [
      { path: '', name: 'budget', component: () => import('@/features/budget/Quotas.vue') },
      { path: 'limits', name: 'limits', component: () => import('@/features/budget/Limits.vue') },
      { path: 'keys', name: 'keys', component: () => import('@/features/budget/Keys.vue') },
      { path: 'grants', name: 'grants', component: () => import('@/features/budget/Grants.vue') },
      { path: 'ledger', name: 'ledger', component: () => import('@/features/budget/Ledger.vue') },
    ],
  },
  {
    path: '/simulate',
    name: 'simulate',
    component: () => import('@/features/simulate/Page.vue'),
  },
  { path: '/tenants', redirect: '/budget' },
  { path: '/:path(.*)*', name: 'not-found', component: () => import('./NotFound.vue') },
];

export const router = createRouter({ history: createWebHistory(import.meta.env.BASE_URL), routes });

router.beforeEach((to) => {
  const { session } = useSession();
  if (session.value && to.name === 'signin') return { name: 'home' };
  if (session.value || to.meta.open) return true;
  return { name: 'signin', query: to.fullPath === '/home' ? {} : { next: to.fullPath } };
});

// After an upgrade the files of the old page are gone: load the page once more,
// and only once, so that a broken server does not make it reload for ever. If
// the server is away, the page that is shown is better than none.
const RELOADED = 'modeldock.reloaded';
router.onError(async (error: Error, to) => {
  if (!/dynamically imported module|module script failed|preload/i.test(error.message)) return;
  if (sessionStorage.getItem(RELOADED) === to.fullPath) return;
  if (!(await isReachable(import.meta.env.BASE_URL)))
    return useToasts().show(i18n.global.t('errors.unreachable'), 'bad');
  sessionStorage.setItem(RELOADED, to.fullPath);
  location.assign(router.resolve(to.fullPath).href);
});
router.afterEach(() => sessionStorage.removeItem(RELOADED));
