package budget

// checkBindings is INV3: a reservation has at most one object, and no two
// reservations share a UID or an object name.
func (c *checker) checkBindings() {
	type name struct{ namespace, name string }
	uids, names, refs := map[string]Ref{}, map[name]Ref{}, map[Ref]string{}
	for _, b := range c.snapshot.Bindings {
		r, known := c.reservations[b.Ref]
		switch {
		case !known:
			c.fail("INV3", subject(b.Ref), "is bound to uid %s but does not exist", b.UID)
		case r.ReservedAt.IsZero():
			c.fail("INV3", subject(b.Ref), "is bound to uid %s but was never reserved", b.UID)
		}
		if b.UID == "" {
			c.fail("INV3", subject(b.Ref), "is bound to an object without a uid")
		}
		if uid, twice := refs[b.Ref]; twice {
			c.fail("INV3", subject(b.Ref), "is bound to uid %s and to uid %s", uid, b.UID)
		}
		refs[b.Ref] = b.UID
		if other, taken := uids[b.UID]; taken && other != b.Ref {
			c.fail("INV3", subject(b.Ref), "shares uid %s with %s", b.UID, subject(other))
		}
		uids[b.UID] = b.Ref
		n := name{b.Namespace, b.Name}
		if other, taken := names[n]; taken && other != b.Ref {
			c.fail("INV3", subject(b.Ref), "shares object %s/%s with %s", b.Namespace, b.Name, subject(other))
		}
		names[n] = b.Ref
	}
}
