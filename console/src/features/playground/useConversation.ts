import { onScopeDispose, shallowReactive, shallowRef, type ShallowReactive } from 'vue';
import type { Token } from 'marked';
import { streamChat, type Message, type Waiting } from './chat';
import type { GrowingMarkdown } from './markdown';
import { RawEvents } from './raw';
import type { Timing } from './speed';

export type TurnState = 'waiting' | 'streaming' | 'done' | 'stopped' | 'failed';

/** One question with its answer. `blocks` is replaced at most once a frame. */
export interface Turn {
  id: number;
  model: string;
  question: string;
  answer: string;
  reasoning: string;
  blocks: Token[];
  state: TurnState;
  requestId: string;
  error: unknown;
  timing: Timing;
  /** What the waiting room said last; undefined once there is an answer. */
  place: Waiting | undefined;
  raw: RawEvents;
}

/** Runs `draw` at most once a frame, however often it is asked. */
function framed(draw: () => void) {
  let asked = 0;
  const ask = () => {
    if (asked) return;
    asked = requestAnimationFrame(() => {
      asked = 0;
      draw();
    });
  };
  const now = () => {
    cancelAnimationFrame(asked);
    asked = 0;
    draw();
  };
  return { ask, now };
}

export function useConversation() {
  const turns = shallowRef<ShallowReactive<Turn>[]>([]);
  const running = shallowRef<AbortController | null>(null);
  let last = 0;

  async function ask(model: string, question: string): Promise<void> {
    if (running.value) return;
    const messages = history(turns.value, question);
    const turn = shallowReactive<Turn>({
      id: ++last,
      model,
      question,
      answer: '',
      reasoning: '',
      blocks: [],
      state: 'waiting',
      requestId: '',
      error: null,
      timing: { sentAt: performance.now(), chunks: 0 },
      place: undefined,
      raw: new RawEvents(),
    });
    turns.value = [...turns.value, turn];
    const stop = new AbortController();
    running.value = stop;
    try {
      await answer(turn, messages, stop.signal);
      turn.state = 'done';
    } catch (error) {
      turn.state = stop.signal.aborted ? 'stopped' : 'failed';
      if (!stop.signal.aborted) turn.error = error;
    } finally {
      running.value = null;
    }
  }

  const stop = () => running.value?.abort();
  const clear = () => {
    stop();
    turns.value = [];
  };
  onScopeDispose(stop); // leaving the page ends the call at the engine too

  return { turns, running, ask, stop, clear };
}

async function answer(turn: Turn, messages: Message[], signal: AbortSignal): Promise<void> {
  let markdown: GrowingMarkdown | undefined;
  let text = '';
  let reasoning = '';
  let drawn = 0;
  const timing: Timing = { ...turn.timing };
  const frame = framed(() => {
    if (!markdown) return; // drawn when the parser is here
    markdown.append(text.slice(drawn));
    drawn = text.length;
    turn.blocks = markdown.blocks;
    turn.answer = text;
    turn.reasoning = reasoning;
    turn.timing = { ...timing };
  });
  // Fetched beside the first call: no view needs it for its first load.
  const parser = import('./markdown').then((module) => {
    markdown = new module.GrowingMarkdown();
    frame.ask();
  });
  const came = () => {
    timing.lastAt = performance.now();
    timing.firstAt ??= timing.lastAt;
    timing.chunks++;
    turn.state = 'streaming';
    turn.place = undefined;
    frame.ask();
  };
  try {
    await streamChat(turn.model, messages, signal, {
      onRequestId: (id) => (turn.requestId = id),
      onContent: (piece) => ((text += piece), came()),
      onReasoning: (piece) => ((reasoning += piece), came()),
      onUsage: (tokens) => ((timing.tokens = tokens), frame.ask()),
      onWaiting: (place) => (turn.place = place),
      onRaw: (line) => turn.raw.add(line),
    });
  } finally {
    await parser;
    frame.now();
  }
}

/** What is sent: the finished turns and the new question; a refused turn is left out. */
export function history(turns: readonly Turn[], question: string): Message[] {
  const before = turns
    .filter((t) => t.answer !== '')
    .flatMap((t): Message[] => [
      { role: 'user', content: t.question },
      { role: 'assistant', content: t.answer },
    ]);
  return [...before, { role: 'user', content: question }];
}
