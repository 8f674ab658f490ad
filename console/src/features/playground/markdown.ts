import { lexer, type Token, type Tokens } from 'marked';
import { h, type VNodeChild } from 'vue';

// Model output becomes VNodes, never HTML: a tag in it is text, a link goes
// only to http, https or mailto, and an image is a link to it, so that reading
// an answer fetches nothing.

/** Where a link may lead; anything else is shown as text. */
export function safeHref(href: string): string | undefined {
  // Control characters and spaces can hide a scheme from a reader and not from a browser.
  // eslint-disable-next-line no-control-regex
  const plain = href.replace(/[\u0000-\u0020\u007f-\u009f]/g, '');
  return /^(https?:\/\/|mailto:)/i.test(plain) ? plain : undefined;
}

const named: Record<string, string> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: '\u00a0',
};

/** Markdown's text may carry entities; they are characters, not markup. */
export function decode(text: string): string {
  return text.replace(/&(#x[0-9a-f]{1,6}|#\d{1,7}|[a-z]{2,6});/gi, (whole, body: string) => {
    if (!body.startsWith('#')) return named[body.toLowerCase()] ?? whole;
    const code =
      body[1]?.toLowerCase() === 'x' ? parseInt(body.slice(2), 16) : Number(body.slice(1));
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : '\ufffd';
  });
}

const children = (tokens: Token[] | undefined): VNodeChild[] => (tokens ?? []).map(render);

/** One token as VNodes. A kind that is not known is its own source text. */
export function render(token: Token): VNodeChild {
  const block = renderBlock(token);
  return block === undefined ? renderInline(token) : block;
}

function renderBlock(token: Token): VNodeChild | undefined {
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'heading':
      // The page has its own headings: one that a model makes is only bold.
      return h('p', { class: 'md-heading' }, children(token.tokens));
    case 'paragraph':
      return h('p', children(token.tokens));
    case 'blockquote':
      return h('blockquote', children(token.tokens));
    case 'code':
      return h('pre', { tabindex: 0 }, h('code', (token as Tokens.Code).text));
    case 'hr':
      return h('hr');
    case 'list':
      return renderList(token as Tokens.List);
    case 'table':
      return renderTable(token as Tokens.Table);
    default:
      return undefined;
  }
}

function renderInline(token: Token): VNodeChild {
  switch (token.type) {
    case 'strong':
      return h('strong', children(token.tokens));
    case 'em':
      return h('em', children(token.tokens));
    case 'del':
      return h('del', children(token.tokens));
    case 'codespan':
      return h('code', (token as Tokens.Codespan).text);
    case 'br':
      return h('br');
    case 'link':
      return renderLink((token as Tokens.Link).href, children(token.tokens), token.raw);
    case 'image':
      return renderLink(
        (token as Tokens.Image).href,
        [(token as Tokens.Image).text || token.raw],
        token.raw,
      );
    case 'escape':
      return (token as Tokens.Escape).text;
    case 'text': {
      const text = token as Tokens.Text;
      return text.tokens ? children(text.tokens) : decode(text.text);
    }
    case 'checkbox':
      return (token as Tokens.Checkbox).checked ? '☑ ' : '☐ ';
    default:
      return token.raw; // raw HTML among them
  }
}

function renderLink(href: string, inner: VNodeChild[], raw: string): VNodeChild {
  const to = safeHref(href);
  if (!to) return raw;
  return h('a', { href: to, target: '_blank', rel: 'noopener noreferrer nofollow' }, inner);
}

function renderList(list: Tokens.List): VNodeChild {
  const start =
    list.ordered && typeof list.start === 'number' && list.start !== 1 ? list.start : undefined;
  const items = list.items.map((item) => h('li', children(item.tokens)));
  return h(list.ordered ? 'ol' : 'ul', { start }, items);
}

function renderTable(table: Tokens.Table): VNodeChild {
  const cell = (tag: 'th' | 'td', c: Tokens.TableCell) =>
    h(tag, { class: c.align ? `md-${c.align}` : undefined }, children(c.tokens));
  return h('div', { class: 'md-table', tabindex: 0 }, [
    h('table', [
      h(
        'thead',
        h(
          'tr',
          table.header.map((c) => cell('th', c)),
        ),
      ),
      h(
        'tbody',
        table.rows.map((row) =>
          h(
            'tr',
            row.map((c) => cell('td', c)),
          ),
        ),
      ),
    ]),
  ]);
}

const OPEN_BLOCKS = 2;

/**
 * Markdown that grows. Only the last blocks are read again when text comes;
 * those before keep their tokens, and so their VNodes and the reader's selection.
 */
export class GrowingMarkdown {
  private settled: Token[] = [];
  private open = '';
  blocks: Token[] = [];

  append(text: string): void {
    this.open = (this.open + text).replace(/\r\n/g, '\n');
    const fresh = lexer(this.open);
    let settle = Math.max(0, fresh.length - OPEN_BLOCKS);
    // What is settled is cut off the source, never rebuilt from tokens: the
    // lexer trims the raw text of a block that is still being written.
    const source = fresh
      .slice(0, settle)
      .map((t) => t.raw)
      .join('');
    if (!this.open.startsWith(source)) settle = 0;
    else this.open = this.open.slice(source.length);
    this.settled = [...this.settled, ...fresh.slice(0, settle)];
    this.blocks = [...this.settled, ...fresh.slice(settle)];
  }
}
