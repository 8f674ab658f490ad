import { useI18n } from 'vue-i18n';
import { ApiError } from '@/api/client';

type Args = Record<string, unknown>;

/**
 * Words for codes of the server. The server sends codes and figures; a code
 * that this console does not know yet is shown as it came, never hidden.
 */
export function useWords() {
  const { t, te } = useI18n({ useScope: 'global' });

  const of = (group: string, code: string | undefined, args: Args = {}): string => {
    if (!code) return '';
    const key = `${group}.${code}`;
    return te(key) || te(key, 'en') ? t(key, args) : code;
  };

  const errorTitle = (error: unknown): string => {
    if (!(error instanceof ApiError)) return t('errors.unexpected');
    const key = `errors.${error.code}`;
    if (te(key, 'en')) return t(key);
    const byStatus = `errors.status.${error.status}`;
    return te(byStatus, 'en') ? t(byStatus) : t('errors.unexpected');
  };

  const errorDetail = (error: unknown): string => {
    if (error instanceof ApiError) return error.message;
    return error instanceof Error ? error.message : String(error);
  };

  const errorCode = (error: unknown): string => (error instanceof ApiError ? error.code : '');

  return { of, errorTitle, errorDetail, errorCode };
}
