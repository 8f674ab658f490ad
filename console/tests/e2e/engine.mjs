// A small OpenAI-compatible engine for the tests: its answers are hostile,
// slow or broken, as the prompt says. Started by ModelDock as a custom engine.
import { createServer } from 'node:http';

const port = Number(process.argv[process.argv.indexOf('--port') + 1]);

const hostile = [
  '<img src=x onerror="window.__x=1"> ',
  '[link](javascript:window.__x=1) ',
  '<svg onload="window.__x=1"> ',
  '<scr',
  'ipt>window.__x=1</scr',
  'ipt> ',
  '![picture](http://198.51.100.7/x.png) ',
  '**bold**',
];

function answersTo(prompt) {
  if (prompt === 'hostile') return hostile;
  return ['Three ', '**accounts**', ' agree.'];
}

createServer((req, res) => {
  if (req.method === 'GET') {
    res.setHeader('Content-Type', 'application/json');
    res.end(JSON.stringify({ object: 'list', data: [{ id: 'hostile', object: 'model' }] }));
    return;
  }
  let body = '';
  req.on('data', (d) => (body += d));
  req.on('end', () => {
    const prompt = JSON.parse(body).messages.at(-1).content;
    res.writeHead(200, { 'Content-Type': 'text/event-stream' });
    const send = (delta, more = {}) =>
      res.write(
        `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta }], ...more })}\n\n`,
      );
    if (prompt === 'endless') {
      const timer = setInterval(() => send({ content: 'more ' }), 20);
      res.on('close', () => clearInterval(timer));
      return;
    }
    for (const content of answersTo(prompt)) send({ content });
    if (prompt === 'break off') {
      setTimeout(() => res.destroy(), 500); // the browser has read what came before
      return;
    }
    res.end('data: [DONE]\n\n');
  });
}).listen(port, '127.0.0.1');
