import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { languages, snippet } from './snippet';

const hostile = `it's "so" \\ $(touch x) \`id\` \n中 </script>`;
const call = { origin: 'http://127.0.0.1:8080', model: 'team-b/m@v2', prompt: hostile };

test('a shell reads back what was asked, and runs nothing of it', () => {
  const text = snippet('curl', call).replace(/^curl/, 'printf "%s\\0"');
  const { stdout } = spawnSync('sh', ['-c', text], { env: { OPENAI_API_KEY: 'k' } });
  const words = stdout.toString().split('\0');
  expect(words[1]).toBe('http://127.0.0.1:8080/v1/chat/completions');
  expect(words[3]).toBe('Authorization: Bearer k');
  expect(JSON.parse(words[7] ?? '')).toEqual({
    model: 'team-b/m@v2',
    stream: true,
    messages: [{ role: 'user', content: hostile }],
  });
});

test('names and prompts are strings in every language, and no snippet has a key', () => {
  for (const language of languages) {
    const text = snippet(language, call);
    expect(text).toContain('team-b/m@v2');
    expect(text).toContain('OPENAI_API_KEY');
    expect(text).not.toContain('mdk_');
    if (language !== 'curl') expect(text).toContain(JSON.stringify(hostile));
  }
});
