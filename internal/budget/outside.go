package budget

import "context"

type outsideKey struct{}

// FromOutside marks the context of a call that somebody outside of the product
// made. Ledgers answer those beside their own loops, never before them:
// admission and delivery do not wait for whoever asks a great deal.
func FromOutside(ctx context.Context) context.Context {
	return context.WithValue(ctx, outsideKey{}, true)
}

// IsFromOutside reports whether ctx was marked so.
func IsFromOutside(ctx context.Context) bool {
	outside, _ := ctx.Value(outsideKey{}).(bool)
	return outside
}
