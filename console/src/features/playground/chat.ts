import { ApiError, apiError, csrfHeaders, errorBody } from '@/api/client';
import { readEvents } from '@/api/sse';

export interface Message {
  role: 'user' | 'assistant';
  content: string;
}

/** What a stream reports while it runs. */
export interface ChatEvents {
  /** The gateway's own id of the call; known as soon as there is an answer, also a refusal. */
  onRequestId(id: string): void;
  onContent(text: string): void;
  onReasoning(text: string): void;
  onUsage(completionTokens: number): void;
  /** What the waiting room says while no replica has a place. */
  onWaiting(place: Waiting): void;
  /** Every event as it came, for a reader who wants to see it. */
  onRaw(line: string): void;
}

/** A place in the waiting room: 1 is next. */
export interface Waiting {
  position: number;
  seconds: number;
}

/** Reads the gateway's comment "modeldock position=3 seconds=12"; others say nothing of a wait. */
export function parseWaiting(comment: string): Waiting | undefined {
  const found = /^modeldock position=(\d+) seconds=(\d+)$/.exec(comment);
  return found ? { position: Number(found[1]), seconds: Number(found[2]) } : undefined;
}

/**
 * Calls the gateway as every other client does, by cookie and CSRF header, and
 * returns when the answer is complete. Throws an ApiError for a refusal, for an
 * error inside the stream, and for a stream that ends without [DONE].
 */
export async function streamChat(
  model: string,
  messages: readonly Message[],
  signal: AbortSignal,
  on: ChatEvents,
): Promise<void> {
  const response = await post(model, messages, signal);
  const requestId = response.headers.get('x-request-id');
  if (requestId) on.onRequestId(requestId);
  if (!response.ok) throw apiError(response, await readJson(response));
  if (!response.body) throw new ApiError(response.status, 'stream_cut', 'the answer has no body');
  const onComment = (text: string) => {
    on.onRaw(`: ${text}`);
    const place = parseWaiting(text);
    if (place) on.onWaiting(place);
  };
  try {
    for await (const event of readEvents(response.body, onComment)) {
      on.onRaw(`data: ${event.data}`);
      if (event.data === '[DONE]') return;
      readChunk(event.data, response.status, on);
    }
  } catch (cause) {
    if (signal.aborted || cause instanceof ApiError) throw cause;
    // The connection broke: the browser says no more than that.
    throw new ApiError(response.status, 'stream_cut', text(cause));
  }
  throw new ApiError(response.status, 'stream_cut', 'the stream ended without [DONE]');
}

const text = (cause: unknown) => (cause instanceof Error ? cause.message : String(cause));

async function post(
  model: string,
  messages: readonly Message[],
  signal: AbortSignal,
): Promise<Response> {
  try {
    return await fetch('/v1/chat/completions', {
      method: 'POST',
      credentials: 'same-origin',
      headers: {
        'Content-Type': 'application/json',
        // To be told of the wait while a model wakes.
        'x-modeldock-progress': '1',
        ...csrfHeaders(),
      },
      body: JSON.stringify({
        model,
        messages,
        stream: true,
        stream_options: { include_usage: true },
      }),
      signal,
    });
  } catch (cause) {
    if (signal.aborted) throw cause;
    throw new ApiError(0, 'unreachable', text(cause));
  }
}

async function readJson(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    return undefined;
  }
}

interface Chunk {
  choices?: { delta?: { content?: unknown; reasoning_content?: unknown } }[];
  usage?: { completion_tokens?: unknown } | null;
}

/** Hands one chunk on; an `error` object inside the stream is thrown. */
export function readChunk(data: string, status: number, on: ChatEvents): void {
  let chunk: Chunk;
  try {
    chunk = JSON.parse(data) as Chunk;
  } catch {
    throw new ApiError(
      status,
      'stream_cut',
      `the stream carries something that is not JSON: ${data.slice(0, 80)}`,
    );
  }
  const error = errorBody(chunk);
  if (error) throw new ApiError(status, error.code, error.message);
  const delta = chunk.choices?.[0]?.delta;
  if (typeof delta?.reasoning_content === 'string' && delta.reasoning_content) {
    on.onReasoning(delta.reasoning_content);
  }
  if (typeof delta?.content === 'string' && delta.content) on.onContent(delta.content);
  const tokens = chunk.usage?.completion_tokens;
  if (typeof tokens === 'number') on.onUsage(tokens);
}
