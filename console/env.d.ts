/// <reference types="vite/client" />

// Attributes that fall through to a component's root element. strictTemplates
// rejects every attribute that is not a prop; these few are meant.
import 'vue';

declare module 'vue' {
  interface AllowedComponentProps {
    id?: string;
    role?: string;
    title?: string;
    onClick?: (event: MouseEvent) => unknown;
    'aria-label'?: string;
    'aria-labelledby'?: string;
    'aria-describedby'?: string;
    'aria-hidden'?: boolean | 'true' | 'false';
    'aria-live'?: 'off' | 'polite' | 'assertive';
    'aria-pressed'?: boolean;
    'aria-expanded'?: boolean;
    'aria-controls'?: string;
    lang?: string;
    tabindex?: string | number;
    'aria-invalid'?: boolean;
  }
}
