// @vitest-environment jsdom
import { mount } from '@vue/test-utils';
import { afterEach, describe, expect, test } from 'vitest';
import type { WarmPool } from '@/api/client';
import { i18n, showLocale } from '@/app/i18n';
import WarmPoolFacts from './WarmPoolFacts.vue';

const pool: WarmPool = {
  pool: 'default',
  settings: { gpuHoursPerDay: 24, classes: [{ class: 'llm', hot: 2, buffers: 1 }] },
  day: '2026-01-02',
  spentToday: 1.254,
  left: 22.746,
  activations: { hot: 7, warm: 3, cold: 1 },
  p99ActivationSeconds: 1.6818,
  classes: [
    {
      class: 'llm',
      hot: { wanted: 2, kept: 1 },
      buffers: { wanted: 1, kept: 1, ready: 0 },
      why: '1 models of class llm may sleep and have <b>room</b>',
    },
  ],
  whatTheNextHourBuys: { class: 'llm', activations: 0.375, seconds: 0.63, message: 'as told' },
};
const show = (of: WarmPool) =>
  mount(WarmPoolFacts, { props: { pool: of }, global: { plugins: [i18n] } });
afterEach(() => showLocale('en'));

describe('WarmPoolFacts', () => {
  test('tells the budget, what was spent, how callers found their models, and the next hour', () => {
    const facts = show(pool);
    for (const words of [
      'default',
      '1.25 of 24 GPU-hours',
      '22.75',
      '7 found it hot',
      '3 woke it',
      '1 waited for a card',
      '1.68 s',
      '1 of 2',
      'room for 1 of 1 replicas, 0 there',
      'have <b>room</b>',
      '0.38',
      '630 ms',
    ]) {
      expect(facts.text()).toContain(words);
    }
    const meter = facts.get('[role=meter]');
    expect(meter.attributes('aria-valuenow')).toBe('1.254');
    expect(meter.attributes('aria-valuemax')).toBe('24');
  });

  test('says so where nobody called yet and an hour would buy nothing', () => {
    const quiet: WarmPool = {
      ...pool,
      activations: { hot: 0, warm: 0, cold: 0 },
      p99ActivationSeconds: undefined,
      whatTheNextHourBuys: undefined,
      classes: [{ class: 'vision', hot: { wanted: 1, kept: 1 }, buffers: { wanted: 0, kept: 0 } }],
    };
    const text = show(quiet).text();
    expect(text).toContain('Nobody called');
    expect(text).toContain('would buy nothing');
    expect(text).not.toContain('room for');
  });

  test('speaks Chinese', async () => {
    await showLocale('zh-CN');
    const text = show(pool).text();
    expect(text).toContain('GPU 小时');
    expect(text).toContain('语言模型');
    expect(text).not.toContain('GPU-hours');
  });
});
