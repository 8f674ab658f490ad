package budget

import "time"

// Overdue reports whether a request that may wait until expires has waited
// too long: the instant of expiry itself is too late.
func Overdue(expires, now time.Time) bool { return !now.Before(expires) }
