// @vitest-environment jsdom
import { mount } from '@vue/test-utils';
import { lexer, type Token } from 'marked';
import { describe, expect, test } from 'vitest';
import { decode, GrowingMarkdown, safeHref } from './markdown';
import MarkdownView from './MarkdownView.vue';

const show = (text: string) => mount(MarkdownView, { props: { blocks: lexer(text) } });

describe('what a model says is text', () => {
  test.each([
    '<img src=x onerror="window.__x=1">',
    '<svg onload="window.__x=1"></svg>',
    '<script>window.__x=1</script>',
    '<iframe src="javascript:alert(1)"></iframe>',
    'a <b onclick="x()">bold</b> word',
    '<a href="javascript:window.__x=1">x</a>',
    '<style>*{display:none}</style>',
  ])('%s', (html) => {
    const page = show(html);
    expect(page.text().replace(/\s+/g, ' ')).toContain(html.replace(/\s+/g, ' '));
    expect(page.findAll('img,svg,script,iframe,b,a,style')).toHaveLength(0);
  });

  test.each([
    'javascript:x',
    'JaVaScRiPt:x',
    ' java\nscript:x',
    'data:text/html,x',
    'vbscript:x',
    'file:///etc',
    '//host/x',
    '/session',
    'java\u0000script:x',
  ])('a link to %j leads nowhere', (href) => expect(safeHref(href)).toBeUndefined());
  test.each(['https://example.com/a?b', 'http://example.com', 'mailto:a@example.com'])(
    'a link to %s is a link',
    (href) => expect(safeHref(href)).toBe(href),
  );

  test('a markdown link of a bad scheme is its own source', () => {
    const page = show('[click](javascript:window.__x=1)');
    expect(page.find('a').exists()).toBe(false);
    expect(page.text()).toBe('[click](javascript:window.__x=1)');
  });
  test('a picture is a link to it: reading an answer fetches nothing', () => {
    const page = show('![cat](https://example.com/cat.png)');
    expect(page.find('img').exists()).toBe(false);
    expect(page.find('a').attributes()).toMatchObject({
      href: 'https://example.com/cat.png',
      rel: 'noopener noreferrer nofollow',
    });
  });
  test('entities are characters, never markup', () => {
    expect(decode('&lt;b&gt; &amp; &#65;&#x42; &unknown; &#0;')).toBe('<b> & AB &unknown; \ufffd');
    expect(show('&lt;img src=x&gt;').text()).toBe('<img src=x>');
  });
});

test('the usual markdown', () => {
  const page = show(
    '# Head\n\n**b** *i* ~~d~~ `c`\n\n3. three\n4. four\n\n- [x] done\n\n| a | b |\n|--:|---|\n| 1 | 2 |\n\n```js\nx < 1\n```\n\n> q\n\n---\n',
  );
  expect(page.find('.md-heading').text()).toBe('Head');
  for (const tag of ['strong', 'em', 'del', 'blockquote', 'hr', 'table', 'ul'])
    expect(page.find(tag).exists()).toBe(true);
  expect(page.find('ol').attributes('start')).toBe('3');
  expect(page.find('pre').text()).toBe('x < 1');
  expect(page.find('th').classes()).toContain('md-right');
  expect(page.find('ul').text()).toContain('☑');
  expect(page.find('h1').exists()).toBe(false);
});

describe('GrowingMarkdown', () => {
  const text =
    'Intro with **bold**.\n\n- one\n- two\n\n- three\n\n```go\nfunc main() {}\n\n// more\n```\n\nEnd &amp; done.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n';
  const html = (blocks: Token[]) => mount(MarkdownView, { props: { blocks } }).html();

  test.each([1, 2, 3, 7, 50])('is, in pieces of %i, the same as the whole at once', (size) => {
    const md = new GrowingMarkdown();
    for (let i = 0; i < text.length; i += size) md.append(text.slice(i, i + size));
    expect(html(md.blocks.filter((b) => b.type !== 'space'))).toBe(
      html(lexer(text).filter((b) => b.type !== 'space')),
    );
  });

  test('what is settled keeps its token, so that it is not drawn again', () => {
    const md = new GrowingMarkdown();
    md.append('first\n\nsecond\n\nthird\n\n');
    const first = md.blocks[0];
    md.append('fourth and more');
    md.append(' and more');
    expect(md.blocks[0]).toBe(first);
  });
});
