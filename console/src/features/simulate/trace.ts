// Traces to replay: made here, or read from a file. A made one is the same
// every time, so that two people compare the same.

export const samples = ['steady', 'bursts', 'day'] as const;
export type Sample = (typeof samples)[number];

/** What the server takes at most. */
export const MOST_BYTES = 8 * 1024 * 1024;

/** The heads of the forms that the server reads. */
const HEADS = [
  /^timestamp,contexttokens,generatedtokens/i,
  /^timestamp_ms,input_length,output_length/i,
  /^timestamp_s,/i,
];

export type TraceProblem = 'empty' | 'tooLarge' | 'head';

/** What is wrong with a trace before it is sent, if anything. */
export function problemOf(text: string): TraceProblem | undefined {
  if (text.trim() === '') return 'empty';
  if (new TextEncoder().encode(text).length > MOST_BYTES) return 'tooLarge';
  return HEADS.some((head) => head.test(text.trimStart())) ? undefined : 'head';
}

/** Numbers between 0 and 1 that only depend on the seed (mulberry32). */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const HOUR = 3600;
const BURST_EVERY = 600;
const BURST_FOR = 60;

/** Requests per second at a moment, and how long it goes on. */
const shapes: Record<Sample, { seconds: number; most: number; rate: (at: number) => number }> = {
  steady: { seconds: HOUR, most: 1, rate: () => 1 },
  bursts: { seconds: HOUR, most: 8, rate: (at) => (at % BURST_EVERY < BURST_FOR ? 8 : 0.1) },
  day: {
    seconds: 24 * HOUR,
    most: 0.6,
    rate: (at) => 0.3 - 0.3 * Math.cos((2 * Math.PI * at) / (24 * HOUR)),
  },
};

/** A made trace in Mooncake's form: arrivals by thinning a Poisson process. */
export function sampleTrace(kind: Sample): string {
  const { seconds, most, rate } = shapes[kind];
  const next = numbers(samples.indexOf(kind) + 1);
  const lines = ['timestamp_ms,input_length,output_length'];
  for (let at = 0; ;) {
    at -= Math.log(1 - next()) / most;
    if (at >= seconds) return lines.join('\n') + '\n';
    if (next() * most > rate(at)) continue;
    const prompt = 50 + Math.floor(next() ** 3 * 2000);
    const answer = 20 + Math.floor(next() ** 2 * 300);
    lines.push(`${Math.round(at * 1000)},${prompt},${answer}`);
  }
}
