export const languages = ['curl', 'python', 'javascript'] as const;
export type Language = (typeof languages)[number];

/** One call, as another client would make it. The key is the reader's own and never part of it. */
export interface Call {
  /** Scheme, host and port of the gateway. */
  origin: string;
  model: string;
  prompt: string;
}

export function snippet(language: Language, call: Call): string {
  return { curl, python, javascript }[language](call);
}

const curl = ({ origin, model, prompt }: Call) => {
  const body = { model, stream: true, messages: [{ role: 'user', content: prompt }] };
  return [
    `curl -N ${shell(`${origin}/v1/chat/completions`)} \\`,
    `  -H "Authorization: Bearer $OPENAI_API_KEY" \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d ${shell(JSON.stringify(body))}`,
  ].join('\n');
};

const python = ({ origin, model, prompt }: Call) =>
  `from openai import OpenAI

client = OpenAI(base_url=${literal(`${origin}/v1`)})  # reads OPENAI_API_KEY
stream = client.chat.completions.create(
    model=${literal(model)},
    messages=[{"role": "user", "content": ${literal(prompt)}}],
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`;

const javascript = ({ origin, model, prompt }: Call) =>
  `import OpenAI from 'openai';

const client = new OpenAI({ baseURL: ${literal(`${origin}/v1`)} }); // reads OPENAI_API_KEY
const stream = await client.chat.completions.create({
  model: ${literal(model)},
  messages: [{ role: 'user', content: ${literal(prompt)} }],
  stream: true,
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? '');`;

/** One word of a POSIX shell, whatever it contains. */
const shell = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

/** A string of Python and of JavaScript alike: JSON's escapes mean the same in both. */
const literal = (text: string) => JSON.stringify(text);
