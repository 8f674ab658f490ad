/** One server-sent event. */
export interface ServerEvent {
  event: string;
  data: string;
  id: string;
}

/**
 * A parser of server-sent events that is fed text as it arrives: an event,
 * a line or a CRLF may be split anywhere. Comments are no events and go to
 * whoever wants them; an event that the end of the stream cuts off is never
 * delivered.
 */
export class SseParser {
  private buffer = '';
  private data: string[] = [];
  private event = '';
  private id = '';
  private first = true;

  constructor(private readonly onComment: (text: string) => void = () => undefined) {}

  /** Returns the events that `chunk` completes. */
  push(chunk: string): ServerEvent[] {
    if (this.first && chunk !== '') {
      this.first = false;
      if (chunk.startsWith('\uFEFF')) chunk = chunk.slice(1);
    }
    this.buffer += chunk;
    const events: ServerEvent[] = [];
    let start = 0;
    for (;;) {
      const end = this.lineEnd(start);
      if (!end) break;
      const done = this.line(this.buffer.slice(start, end.at));
      if (done) events.push(done);
      start = end.next;
    }
    this.buffer = this.buffer.slice(start);
    return events;
  }

  /** Finds the end of the line that begins at `from`; a CR at the very end may be half of a CRLF. */
  private lineEnd(from: number): { at: number; next: number } | undefined {
    for (let i = from; i < this.buffer.length; i++) {
      const c = this.buffer[i];
      if (c === '\n') return { at: i, next: i + 1 };
      if (c !== '\r') continue;
      if (i + 1 === this.buffer.length) return undefined;
      return { at: i, next: this.buffer[i + 1] === '\n' ? i + 2 : i + 1 };
    }
    return undefined;
  }

  private line(text: string): ServerEvent | undefined {
    if (text === '') return this.dispatch();
    if (text.startsWith(':')) {
      this.onComment(text.slice(1).trim());
      return undefined;
    }
    const colon = text.indexOf(':');
    const field = colon < 0 ? text : text.slice(0, colon);
    let value = colon < 0 ? '' : text.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (field === 'data') this.data.push(value);
    else if (field === 'event') this.event = value;
    else if (field === 'id' && !value.includes('\0')) this.id = value;
    return undefined;
  }

  private dispatch(): ServerEvent | undefined {
    const { data, event } = this;
    this.data = [];
    this.event = '';
    if (data.length === 0) return undefined;
    return { event: event || 'message', data: data.join('\n'), id: this.id };
  }
}

/** Reads a response body as server-sent events. */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  onComment?: (text: string) => void,
): AsyncGenerator<ServerEvent> {
  const parser = new SseParser(onComment);
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    // Leaving early (an error, a stop) must also end the request.
    await reader.cancel().catch(() => undefined);
  }
}
