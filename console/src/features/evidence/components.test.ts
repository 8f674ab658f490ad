// @vitest-environment jsdom
import { mount } from '@vue/test-utils';
import { afterEach, describe, expect, test } from 'vitest';
import { nextTick } from 'vue';
import type { Evidence } from '@/api/client';
import { i18n, showLocale } from '@/app/i18n';
import { readChain } from './chain';
import Timeline from './Timeline.vue';
import VerdictBar from './VerdictBar.vue';

const blocked: Evidence = {
  id: 'demo',
  tenant: 'team-a',
  answers: { budgetSpentOnce: null, modelStarted: null, firstChunkDelivered: null },
  brokenAt: 'reserved',
  reason: 'QuotaBlocked',
  message: 'tenant team-a holds 2 of 2 slots; this request needs 1',
  nextAction: 'ReleaseOwnRequestOrRaiseQuota',
  steps: [
    {
      seq: 1,
      account: 'budget',
      step: 'submitted',
      status: 'ok',
      at: '2026-01-02T03:04:05.000000Z',
      source: 'ledger:reservation',
      facts: { cost: 1, submits: 2, lastError: '<img src=x onerror="x()">' },
    },
    {
      seq: 2,
      account: 'budget',
      step: 'reserved',
      status: 'broken',
      source: 'ledger:tenant_quota,gpu_pool',
      reason: 'QuotaBlocked',
      facts: {
        need: 1,
        tenant: 'team-a',
        tenantUsed: 2,
        tenantCap: 2,
        pool: 'default',
        poolUsed: 2,
        poolCap: 8,
      },
      expected: '1 free slots',
      found: 'tenant 2 of 2 used',
    },
    {
      seq: 3,
      account: 'delivery',
      step: 'delivered',
      status: 'pending',
      source: 'ledger:outbox',
      reason: 'NotYet',
      facts: {},
    },
  ],
};
const global = { plugins: [i18n] };
afterEach(() => showLocale('en'));

describe('VerdictBar', () => {
  test('names the broken link, what was expected and found, and what to do', async () => {
    const bar = mount(VerdictBar, {
      props: { chain: readChain(blocked), evidence: blocked },
      global,
    });
    for (const words of [
      'Broken at “Slots reserved”',
      'QuotaBlocked',
      'link 2',
      '1 free slots',
      'tenant 2 of 2 used',
      'holds 2 of 2 slots',
      '1 of 3 links hold',
      'Release one of your requests',
    ]) {
      expect(bar.text()).toContain(words);
    }
    await bar.find('button').trigger('click');
    expect(bar.emitted('jump')).toHaveLength(1);
  });

  test('in Chinese the reason is translated with the figures of its step', async () => {
    await showLocale('zh-CN');
    const bar = mount(VerdictBar, {
      props: { chain: readChain(blocked), evidence: blocked },
      global,
    });
    expect(bar.text()).toContain('租户 team-a 已用 2 / 2 个名额；此请求需要 1 个。');
    expect(bar.text()).toContain('释放自己的一个请求');
  });

  test('a code that this console does not know is shown as it came', () => {
    const odd = { ...blocked, reason: 'BrandNew', nextAction: 'DoSomething' };
    const bar = mount(VerdictBar, { props: { chain: readChain(odd), evidence: odd }, global });
    expect(bar.text()).toContain('BrandNew');
    expect(bar.text()).toContain('DoSomething');
  });
});

describe('Timeline', () => {
  test('marks the break, dims what comes after by its frame, and jumps to the break', async () => {
    Element.prototype.scrollIntoView = () => undefined;
    const line = mount(Timeline, {
      props: { chain: readChain(blocked) },
      global,
      attachTo: document.body,
    });
    expect(line.findAll('[data-broken]')).toHaveLength(1);
    expect(line.find('[data-step=delivered] article').classes()).toContain('border-dashed');
    expect(line.find('[data-step=delivered]').text()).toContain('comes after the break');
    (line.vm as unknown as { jump(): void }).jump();
    await nextTick();
    await nextTick();
    expect(document.activeElement?.getAttribute('data-step')).toBe('reserved');
    line.unmount();
  });

  test('a step opens to all its facts, which are text', async () => {
    const line = mount(Timeline, { props: { chain: readChain(blocked) }, global });
    const step = line.find('[data-step=submitted]');
    const button = step.find('button');
    expect(button.attributes('aria-expanded')).toBe('false');
    await button.trigger('click');
    expect(button.attributes('aria-expanded')).toBe('true');
    expect(step.text()).toContain('<img src=x onerror="x()">');
    expect(step.text()).toContain('ledger:reservation');
    expect(line.find('img').exists()).toBe(false);
  });
});
