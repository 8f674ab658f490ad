import { spawn, type ChildProcess } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A running ModelDock with its own data directory, and its keys. */
export interface ModelDock {
  url: string;
  keys: { admin: string; 'team-a': string; 'team-b': string };
  /** Calls the management API or the gateway with a key, as another client does. */
  call(key: string, method: string, path: string, body?: unknown): Promise<Response>;
  stop(): Promise<void>;
}

const READY_MS = 30_000;

/** Starts the binary named by MODELDOCK_BIN; without it the suite fails, it never skips. */
export async function startModelDock(...more: string[]): Promise<ModelDock> {
  const binary = process.env.MODELDOCK_BIN;
  if (!binary) {
    throw new Error('MODELDOCK_BIN is not set: build the binary (after npm run build) and name it');
  }
  const data = await mkdtemp(join(tmpdir(), 'modeldock-console-'));
  // Engines may run as another user, who must be able to pass through.
  await chmod(data, 0o755);
  const args = ['up', '--listen', '127.0.0.1:0', '--data-dir', join(data, 'data'), ...more];
  const child = spawn(binary, args, {
    env: { ...process.env, HOME: data, XDG_CONFIG_HOME: join(data, 'config') },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const url = await readUrl(child);
  const keys = JSON.parse(
    await readFile(join(data, 'data', 'keys.json'), 'utf8'),
  ) as ModelDock['keys'];
  return {
    url,
    keys,
    call: (key, method, path, body) =>
      fetch(url + path, {
        method,
        headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
        body: body === undefined ? undefined : JSON.stringify(body),
      }),
    stop: async () => {
      await ended(child);
      await rm(data, { recursive: true, force: true });
    },
  };
}

function readUrl(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = '';
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error(`ModelDock was not ready after ${READY_MS} ms:\n${output}`));
    }, READY_MS);
    const read = (chunk: Buffer) => {
      output += chunk.toString();
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(output);
      // The banner follows the first line; the keys are written before it.
      if (!found) return;
      clearTimeout(timer);
      resolve(found[0]);
    };
    child.stdout?.on('data', read);
    child.stderr?.on('data', read);
    child.once('exit', (code) => {
      clearTimeout(timer);
      reject(new Error(`ModelDock ended with code ${code}:\n${output}`));
    });
  });
}

/** Stops the process by its own pid and waits until it is gone. */
function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    const hard = setTimeout(() => child.kill('SIGKILL'), 20_000);
    child.once('exit', () => {
      clearTimeout(hard);
      resolve();
    });
    child.kill('SIGTERM');
  });
}

/** Asks until the answer satisfies, within a deadline. */
export async function until<T>(what: string, ask: () => Promise<T | undefined>): Promise<T> {
  const deadline = Date.now() + 30_000;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (Date.now() > deadline) throw new Error(`${what} did not happen within 30 s`);
    await new Promise((r) => setTimeout(r, 50));
  }
}

/** Waits until a request's model answers its health check. */
export const untilReady = (dock: ModelDock, key: string, id: string) =>
  until(`${id} becoming ready`, async () => {
    const record = (await (await dock.call(key, 'GET', `/requests/${id}`)).json()) as {
      readyReplicas: number;
    };
    return record.readyReplicas > 0 ? record : undefined;
  });
