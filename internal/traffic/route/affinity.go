package route

import (
	"encoding/binary"
	"math/bits"
)

// PrefixLength is how much of a prompt decides which replica's prefix cache
// may hold it. A shorter prompt has no affinity: to compute it again costs
// less than an uneven load.
const PrefixLength = 1 << 10

// PrefixKey is the affinity of a prompt; 0 if it is too short to have one.
// Every gateway computes the same.
func PrefixKey(prompt []byte) uint64 {
	if len(prompt) < PrefixLength {
		return 0
	}
	return hash(prompt[:PrefixLength]) | 1
}

// SessionKey is the affinity of a session's requests.
func SessionKey(session string) uint64 { return hash([]byte(session)) | 1 }

// hash takes eight bytes per step; it need not withstand an adversary, who
// could only spoil the placement of own requests, and that is bounded.
func hash(p []byte) uint64 {
	h := uint64(len(p)) * 0x9e3779b97f4a7c15
	for ; len(p) >= 8; p = p[8:] {
		h = bits.RotateLeft64(h^binary.LittleEndian.Uint64(p)*0xff51afd7ed558ccd, 29) * 0xc4ceb9fe1a85ec53
	}
	var rest [8]byte
	copy(rest[:], p)
	return mix(h ^ binary.LittleEndian.Uint64(rest[:]))
}

// mix finishes a hash as MurmurHash3 does.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
