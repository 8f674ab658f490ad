import { shallowRef } from 'vue';

const MOST_LINES = 2_000;
const MOST_CHARACTERS = 400_000;

/**
 * The events of one answer as they came. An endless one must not fill the
 * memory: the first ones are kept, and the others counted.
 */
export class RawEvents {
  readonly count = shallowRef(0);
  private readonly lines: string[] = [];
  private size = 0;

  add(line: string): void {
    if (this.lines.length < MOST_LINES && this.size + line.length <= MOST_CHARACTERS) {
      this.lines.push(line);
      this.size += line.length;
    } else this.size = Infinity; // what is kept is a beginning, without gaps
    this.count.value++;
  }

  /** What was kept, and how many events more there were. */
  read(): { text: string; left: number } {
    return { text: this.lines.join('\n'), left: this.count.value - this.lines.length };
  }
}
