// Figures and times as people read them. Everything here is pure; "now" is
// always an argument.

const KIB = 1024;

/** MiB as the largest unit that keeps the figure readable: 512 MiB, 4 GiB, 1.5 TiB. */
export function mib(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  if (Math.abs(value) < KIB) return `${trim(value)} MiB`;
  if (Math.abs(value) < KIB * KIB) return `${trim(value / KIB)} GiB`;
  return `${trim(value / KIB / KIB)} TiB`;
}

/** At most one decimal, none where it would be zero or the figure is large. */
function trim(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : 1;
  return String(Number(value.toFixed(digits)));
}

/** An age for lists: 8s, 1m 03s, 2h 05m, 3d 04h. */
export function age(fromIso: string | undefined, now: number): string {
  if (!fromIso) return '–';
  const from = Date.parse(fromIso);
  if (Number.isNaN(from)) return '–';
  return span((now - from) / 1000);
}

/** A span of seconds in two units; a clock that runs behind gives 0s, never a negative age. */
export function span(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${pad(s % 60)}s`;
  if (s < 86_400) return `${Math.floor(s / 3600)}h ${pad(Math.floor((s % 3600) / 60))}m`;
  return `${Math.floor(s / 86_400)}d ${pad(Math.floor((s % 86_400) / 3600))}h`;
}

/** Milliseconds, for latencies: 48 ms, 1.24 s, 12.5 s. */
export function ms(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  if (value < 1000) return `${Math.round(value)} ms`;
  const s = value / 1000;
  return `${s < 10 ? s.toFixed(2) : s.toFixed(1)} s`;
}

const pad = (n: number, width = 2) => String(n).padStart(width, '0');

/** Local wall time with milliseconds: 09:14:02.137. */
export function clock(iso: string | undefined): string {
  const d = parse(iso);
  if (!d) return '–';
  return `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}.${pad(d.getMilliseconds(), 3)}`;
}

/** Local date and time with the zone, for places where an absolute time counts. */
export function stamp(iso: string | undefined): string {
  const d = parse(iso);
  if (!d) return '–';
  const date = `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;
  return `${date} ${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())} ${zone(d)}`;
}

/** The reader's zone at that moment as UTC, UTC+8 or UTC−3:30. */
export function zone(at: Date): string {
  const minutes = -at.getTimezoneOffset();
  if (minutes === 0) return 'UTC';
  const sign = minutes > 0 ? '+' : '−';
  const rest = Math.abs(minutes) % 60;
  return `UTC${sign}${Math.floor(Math.abs(minutes) / 60)}${rest ? `:${pad(rest)}` : ''}`;
}

function parse(iso: string | undefined): Date | undefined {
  if (!iso) return undefined;
  const t = Date.parse(iso);
  return Number.isNaN(t) ? undefined : new Date(t);
}

/** A share as a percentage between 0 and 100; nothing of nothing is 0. */
export function share(part: number, whole: number): number {
  if (!(whole > 0)) return 0;
  return Math.min(100, Math.max(0, (part / whole) * 100));
}

/** Whole numbers with grouping for the reader's language. */
export function count(value: number, locale: string): string {
  return new Intl.NumberFormat(locale).format(value);
}
