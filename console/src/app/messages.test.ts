import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { en } from '@/locales/en';
import { zhCN } from '@/locales/zh-CN';

// That both languages have the same keys is checked by types. This checks what
// types cannot: that the keys used exist, that none is unused, and that both
// languages put the same figures into a sentence.

function flat(messages: object, prefix = ''): Map<string, string> {
  const out = new Map<string, string>();
  for (const [key, value] of Object.entries(messages)) {
    const path = prefix ? `${prefix}.${key}` : key;
    if (typeof value === 'string') out.set(path, value);
    else for (const [k, v] of flat(value as object, path)) out.set(k, v);
  }
  return out;
}

const english = flat(en);
const chinese = flat(zhCN);

const sources = (readdirSync('src', { recursive: true }) as string[])
  .filter((f) => /\.(vue|ts)$/.test(f) && !/\.test\.ts$|locales|schema/.test(f))
  .map((f) => readFileSync(join('src', f), 'utf8'))
  .join('\n');

// t('a.b'), and the fixed beginning of t(`a.b.${code}`) and words.of('a.b', code).
const used = new Set([...sources.matchAll(/\bt\(\s*'([\w.]+)'/g)].map((m) => m[1] ?? ''));
const groups = new Set([
  ...[...sources.matchAll(/`([a-zA-Z]+(?:\.[a-zA-Z]+)*)\.\$\{/g)].map((m) => m[1] ?? ''),
  ...[...sources.matchAll(/\bof\('([\w.]+)'/g)].map((m) => m[1] ?? ''),
]);

describe('messages', () => {
  test('every key that the pages ask for exists', () => {
    expect(used.size).toBeGreaterThan(100);
    const quoted = [...sources.matchAll(/'([a-z][a-zA-Z]+(?:\.[a-zA-Z]+)+)'/g)].map(
      (m) => m[1] ?? '',
    );
    const asked = [...used, ...quoted.filter((k) => k.split('.')[0] ?? '' in en)];
    expect(asked.filter((k) => used.has(k) && !english.has(k))).toEqual([]);
  });

  test('no message is left over', () => {
    const dynamic = (key: string) => [...groups].some((g) => key.startsWith(`${g}.`));
    const left = [...english.keys()].filter(
      (k) => !used.has(k) && !dynamic(k) && !sources.includes(`'${k}'`),
    );
    expect(left).toEqual([]);
  });

  test('both languages name the same figures', () => {
    const figures = (s: string | undefined) =>
      [...new Set((s ?? '').match(/\{\w+\}/g) ?? [])].sort();
    for (const [key, text] of english)
      expect([key, figures(chinese.get(key))]).toEqual([key, figures(text)]);
  });

  test('no Chinese message was left in English', () => {
    const same = [...english].filter(
      ([key, text]) => chinese.get(key) === text && /[a-z]{3}/.test(text),
    );
    const names = /^(app\.name|submit\.engines\.\w+|evidence\.factNames\.\w+)$/;
    expect(same.map(([key]) => key).filter((key) => !names.test(key))).toEqual([]);
  });
});
