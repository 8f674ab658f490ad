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
  for await (const event of readEvents(response.body)) {
    if (event.data === '[DONE]') return;
    readChunk(event.data, response.status, on);
  }
  throw new ApiError(response.status, 'stream_cut', 'the stream ended without [DONE]');
}

async function post(
  model: string,
  messages: readonly Message[],
  signal: AbortSignal,
): Promise<Response> {
  try {
    return await fetch('/v1/chat/completions', {
      method: 'POST',
      credentials: 'same-origin',
      headers: { 'Content-Type': 'application/json', ...csrfHeaders() },
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
    throw new ApiError(0, 'unreachable', cause instanceof Error ? cause.message : String(cause));
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
