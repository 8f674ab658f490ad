import js from '@eslint/js';
import prettier from 'eslint-config-prettier';
import vue from 'eslint-plugin-vue';
import a11y from 'eslint-plugin-vuejs-accessibility';
import ts from 'typescript-eslint';

const features = [
  'budget',
  'evidence',
  'fleet',
  'home',
  'models',
  'playground',
  'requests',
  'session',
  'simulate',
  'traces',
];

// Only the kit may use the headless library, and no feature may use another.
const noReka = {
  group: ['reka-ui', 'reka-ui/*'],
  message: 'Use the kit in src/ui/; only its files import reka-ui.',
};
const kitOnly = {
  group: ['@/api/*', '@/features/*'],
  message: 'The kit knows nothing of the API or of features.',
};

export default ts.config(
  { ignores: ['node_modules', 'coverage', 'src/api/schema.d.ts'] },
  js.configs.recommended,
  ...ts.configs.strict,
  ...vue.configs['flat/recommended'],
  ...a11y.configs['flat/recommended'],
  {
    files: ['**/*.vue'],
    languageOptions: { parserOptions: { parser: ts.parser } },
  },
  {
    files: ['**/*.{ts,vue}'],
    rules: {
      'no-undef': 'off', // the type checker does this, and knows the DOM
      'vue/no-v-html': 'error',
      'vue/no-static-inline-styles': 'error',
      'vue/multi-word-component-names': 'off',
      'vue/attributes-order': 'off',
      'vue/require-default-prop': 'off',
      'vue/block-lang': ['error', { script: { lang: 'ts' } }],
      'vue/component-api-style': ['error', ['script-setup']],
      // Labels are bound by id in UiField; nesting as well is not needed.
      'vuejs-accessibility/label-has-for': 'off',
      'no-restricted-imports': ['error', { patterns: [noReka] }],
    },
  },
  {
    files: ['src/ui/**'],
    rules: { 'no-restricted-imports': ['error', { patterns: [kitOnly] }] },
  },
  ...features.map((own) => ({
    files: [`src/features/${own}/**`],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            noReka,
            {
              group: features.filter((f) => f !== own).map((f) => `**/features/${f}/*`),
              message:
                'Features never import each other; share through src/api, src/app or src/ui.',
            },
          ],
        },
      ],
    },
  })),
  {
    files: ['public/*.js'],
    languageOptions: {
      sourceType: 'script',
      globals: { window: 'readonly', document: 'readonly', localStorage: 'readonly' },
    },
    rules: { 'no-var': 'off' },
  },
  {
    files: ['tests/**/*.mjs'],
    languageOptions: {
      globals: {
        process: 'readonly',
        setInterval: 'readonly',
        clearInterval: 'readonly',
        setTimeout: 'readonly',
      },
    },
  },
  prettier,
);
