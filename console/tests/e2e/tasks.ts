import type { BrowserContext, Page } from 'playwright-core';

/** One task of the page's main thread, in ms: by the clock, and of the processor. */
export interface Task {
  wall: number;
  cpu: number;
}

interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  dur?: number;
  tdur?: number;
  args?: { name?: string };
}

const LONG_MS = 50;

/**
 * Traces the page until the returned function is called, which answers with
 * the tasks above 50 ms. On a machine that does other things as well a task's
 * time by the clock says how often it was interrupted; its processor time says
 * how much it did.
 */
export async function traceTasks(
  context: BrowserContext,
  page: Page,
): Promise<() => Promise<Task[]>> {
  const protocol = await context.newCDPSession(page);
  const events: TraceEvent[] = [];
  protocol.on('Tracing.dataCollected', ({ value }) => {
    for (const e of value as unknown as TraceEvent[]) events.push(e);
  });
  const complete = new Promise<void>((resolve) =>
    protocol.once('Tracing.tracingComplete', () => resolve()),
  );
  await protocol.send('Tracing.start', {
    transferMode: 'ReportEvents',
    traceConfig: { includedCategories: ['toplevel', 'devtools.timeline', '__metadata'] },
  });
  return async () => {
    await protocol.send('Tracing.end');
    await complete;
    const threads = new Set(
      events
        .filter((e) => e.name === 'thread_name' && e.args?.name === 'CrRendererMain')
        .map((e) => `${e.pid} ${e.tid}`),
    );
    const tasks = events
      .filter((e) => e.ph === 'X' && e.name.endsWith('RunTask') && threads.has(`${e.pid} ${e.tid}`))
      .map((e) => ({ wall: (e.dur ?? 0) / 1000, cpu: (e.tdur ?? 0) / 1000 }));
    if (tasks.length === 0) throw new Error('the trace has no task of the page');
    return tasks.filter((t) => t.wall > LONG_MS);
  };
}
