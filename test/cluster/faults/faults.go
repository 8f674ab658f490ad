// Package faults holds the tests of what a real cluster survives: controllers
// killed again and again under load, and an API server, a database, or all
// controllers that are away for a while. They need MariaDB; those with traffic
// need root, for a real node.
//
// MODELDOCK_FAULTS=long runs their long forms. MODELDOCK_STATIC_BIN names a
// static modeldock that is there already.
package faults
