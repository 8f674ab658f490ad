//go:build !unix

package gateway

func openFilesLimit() (uint64, bool) { return 0, false }
