import type { Schemas, Submit } from '@/api/client';
import { ApiError } from '@/api/client';
import { goodName, MAX_NAME } from '@/app/names';

export type Engine = NonNullable<Schemas['Model']['engine']>;
export const engines: readonly Engine[] = [
  'simulated',
  'custom',
  'llamacpp',
  'ollama',
  'vllm',
  'sglang',
];

/** What the person typed; text, because that is what fields hold. */
export interface Draft {
  tenant: string;
  id: string;
  cost: string;
  priority: string;
  modelName: string;
  engine: Engine;
  memory: string;
  source: string;
  command: string;
  healthPath: string;
}

export const emptyDraft = (): Draft => ({
  tenant: '',
  id: '',
  cost: '1',
  priority: '50',
  modelName: '',
  engine: 'simulated',
  memory: '4096',
  source: '',
  command: '',
  healthPath: '',
});

/** The form's fields by the JSON path under which the server names them. */
export const fieldPaths: Record<keyof Draft, string> = {
  tenant: 'tenant',
  id: 'id',
  cost: 'cost',
  priority: 'priority',
  modelName: 'model.name',
  engine: 'model.engine',
  memory: 'model.gpuMemoryMiB',
  source: 'model.source',
  command: 'model.command',
  healthPath: 'model.healthPath',
};

export interface Problem {
  key: 'required' | 'wholeNumber' | 'badName' | 'badPath' | 'tooLong' | 'tooMany';
  min?: number;
  max?: number;
}

const ranges: Partial<Record<keyof Draft, [number, number]>> = {
  cost: [1, 1_000_000],
  priority: [0, 100],
  memory: [1, 16 * 1024 * 1024],
};

// As internal/modelspec has them.
const PATH = /^\/[A-Za-z0-9._/-]*$/;
const MAX_SOURCE = 4096;
const MAX_ARGS = 256;
const MAX_ARG = 8192;
const bytes = (text: string) => new TextEncoder().encode(text).length;

/** What can be said before asking the server, by its own rules; it has the last word on everything. */
export function check(draft: Draft, needsTenant: boolean): Partial<Record<keyof Draft, Problem>> {
  const problems: Partial<Record<keyof Draft, Problem>> = {};
  const name = (field: keyof Draft, needed: boolean) => {
    const text = draft[field].trim();
    if (text === '' && needed) problems[field] = { key: 'required' };
    else if (text !== '' && !goodName(text)) problems[field] = { key: 'badName', max: MAX_NAME };
  };
  name('id', true);
  name('modelName', false);
  if (needsTenant) name('tenant', true);
  if (bytes(draft.source.trim()) > MAX_SOURCE)
    problems.source = { key: 'tooLong', max: MAX_SOURCE };
  if (draft.engine === 'custom') {
    const command = words(draft.command);
    if (command.length === 0) problems.command = { key: 'required' };
    else if (command.length > MAX_ARGS) problems.command = { key: 'tooMany', max: MAX_ARGS };
    else if (command.some((arg) => bytes(arg) > MAX_ARG))
      problems.command = { key: 'tooLong', max: MAX_ARG };
    const path = draft.healthPath.trim();
    if (path !== '' && !PATH.test(path)) problems.healthPath = { key: 'badPath' };
  }
  for (const [field, range] of Object.entries(ranges) as [keyof Draft, [number, number]][]) {
    const text = draft[field].trim();
    const [min, max] = range;
    const n = Number(text);
    if (!/^\d+$/.test(text) || n < min || n > max)
      problems[field] = { key: 'wholeNumber', min, max };
  }
  return problems;
}

/** The body to send: a field that was left empty is left out, so that the server's default holds. */
export function toSubmit(draft: Draft, withTenant: boolean): Submit {
  const model: Schemas['Model'] = { engine: draft.engine, gpuMemoryMiB: Number(draft.memory) };
  if (draft.modelName.trim()) model.name = draft.modelName.trim();
  if (draft.source.trim()) model.source = draft.source.trim();
  if (draft.engine === 'custom') {
    model.command = words(draft.command);
    if (draft.healthPath.trim()) model.healthPath = draft.healthPath.trim();
  }
  const body: Submit = {
    id: draft.id.trim(),
    cost: Number(draft.cost),
    priority: Number(draft.priority),
    model,
  };
  if (withTenant) body.tenant = draft.tenant.trim();
  return body;
}

/** One argument per line; blank lines are not arguments. */
const words = (text: string) =>
  text
    .split('\n')
    .map((l) => l.trim())
    .filter((l) => l !== '');

/** The form's field that a server error belongs to, or none if the form does not show it. */
export function fieldOf(error: unknown, draft: Draft): keyof Draft | undefined {
  if (!(error instanceof ApiError) || !error.field) return undefined;
  const path = error.field.replace(/\[\d+\]|\.\d+$/g, '');
  const found = (Object.keys(fieldPaths) as (keyof Draft)[]).find((f) => fieldPaths[f] === path);
  if ((found === 'command' || found === 'healthPath') && draft.engine !== 'custom')
    return undefined;
  return found;
}
