import { createI18n } from 'vue-i18n';
import { watch } from 'vue';
import { en, type Messages } from '@/locales/en';
import { stored } from './stored';

export type Locale = 'en' | 'zh-CN';
export const locales: readonly Locale[] = ['en', 'zh-CN'];

const preferred: Locale =
  typeof navigator !== 'undefined' && navigator.language.toLowerCase().startsWith('zh')
    ? 'zh-CN'
    : 'en';

export const locale = stored<Locale>('locale', locales, preferred);

export const i18n = createI18n<[Messages], Locale, false>({
  legacy: false,
  locale: 'en',
  fallbackLocale: 'en',
  messages: { en } as Record<Locale, Messages>,
});

/** Shows the chosen language; the Chinese messages are fetched when first needed. */
export async function showLocale(wanted: Locale): Promise<void> {
  if (wanted === 'zh-CN' && !i18n.global.availableLocales.includes('zh-CN')) {
    const { zhCN } = await import('@/locales/zh-CN');
    i18n.global.setLocaleMessage('zh-CN', zhCN);
  }
  i18n.global.locale.value = wanted;
  document.documentElement.lang = wanted;
}

watch(locale, (wanted) => void showLocale(wanted));
