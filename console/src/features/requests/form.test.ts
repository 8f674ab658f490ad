// @vitest-environment jsdom
import { describe, expect, test } from 'vitest';
import { ApiError } from '@/api/client';
import { check, emptyDraft, fieldOf, toSubmit, type Draft } from './form';

const draft = { ...emptyDraft(), id: ' demo ' };

describe('toSubmit', () => {
  test('leaves out what was left empty, so that the defaults of the server hold', () => {
    expect(toSubmit(draft, false)).toEqual({
      id: 'demo',
      cost: 1,
      priority: 50,
      model: { engine: 'simulated', gpuMemoryMiB: 4096 },
    });
  });
  test('sends the tenant only for an admin', () => {
    expect(toSubmit({ ...draft, tenant: 'team-a' }, true).tenant).toBe('team-a');
    expect('tenant' in toSubmit({ ...draft, tenant: 'team-a' }, false)).toBe(false);
  });
  test('a command is one argument per line, and goes with the custom engine only', () => {
    const command = 'server\n--port\n${PORT}\n\n  a b  ';
    const custom = toSubmit(
      { ...draft, engine: 'custom', command, healthPath: '/health' },
      false,
    ).model;
    expect(custom).toMatchObject({
      command: ['server', '--port', '${PORT}', 'a b'],
      healthPath: '/health',
    });
    expect(toSubmit({ ...draft, command, healthPath: '/health' }, false).model).not.toHaveProperty(
      'command',
    );
  });
});

describe('check', () => {
  test('a good draft has no problem', () => expect(check(draft, false)).toEqual({}));
  test.each([
    ['cost', '0'],
    ['cost', '1.5'],
    ['cost', ''],
    ['cost', '1000001'],
    ['priority', '101'],
    ['priority', '-1'],
    ['memory', '1e3'],
  ] as const)('%s %j is no whole number in range', (field, value) => {
    expect(check({ ...draft, [field]: value }, false)[field]?.key).toBe('wholeNumber');
  });
  test.each([
    ['id', 'a b', 'badName'],
    ['id', '<b>x</b>', 'badName'],
    ['id', '-a', 'badName'],
    ['id', 'a'.repeat(129), 'badName'],
    ['modelName', 'über', 'badName'],
    ['tenant', 'a/b', 'badName'],
    ['source', `file:///${'中'.repeat(1400)}`, 'tooLong'],
    ['healthPath', 'health', 'badPath'],
    ['healthPath', '/health?x=1', 'badPath'],
    ['command', 'a\n'.repeat(257), 'tooMany'],
    ['command', 'a'.repeat(8193), 'tooLong'],
  ] as const)('%s is refused as the server does', (field, value, key) => {
    const custom: Draft = { ...draft, tenant: 't', engine: 'custom', command: 'server' };
    expect(check({ ...custom, [field]: value }, true)).toEqual({
      [field]: expect.objectContaining({ key }) as unknown,
    });
  });
  test('what the server takes is not refused', () => {
    for (const id of ['a', 'A.b_c-1', 'x..y', '9007199254740993', 'a'.repeat(128)])
      expect(check({ ...draft, id, modelName: id, tenant: id }, true)).toEqual({});
    // A field that the form does not show is not sent.
    expect(check({ ...draft, healthPath: 'health' }, false)).toEqual({});
  });
  test("id, an admin's tenant and a custom command are needed", () => {
    expect(Object.keys(check({ ...emptyDraft(), engine: 'custom' }, true)).sort()).toEqual([
      'command',
      'id',
      'tenant',
    ]);
  });
});

describe('fieldOf', () => {
  const error = (field?: string) => new ApiError(400, 'invalid_request', 'm', field);
  test.each([
    ['cost', 'cost'],
    ['model.gpuMemoryMiB', 'memory'],
    ['model.name', 'modelName'],
    ['model.source', 'source'],
    ['tenant', 'tenant'],
  ])('%s belongs to the field %s', (path, field) =>
    expect(fieldOf(error(path), draft)).toBe(field),
  );
  test('an element of the command belongs to the command, where the form shows it', () => {
    expect(fieldOf(error('model.command[2]'), { ...draft, engine: 'custom' })).toBe('command');
    expect(fieldOf(error('model.command'), draft)).toBeUndefined();
  });
  test('what the form does not show belongs to no field, so that it is shown above', () => {
    for (const e of [error('ttlSeconds'), error('model'), error(), new Error('x'), null]) {
      expect(fieldOf(e, draft)).toBeUndefined();
    }
  });
});
