package feed

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// tokenPrefix tells a pass from a key.
const tokenPrefix = "mdt_"

// PassAge is how long a pass may be used.
const PassAge = time.Minute

// ErrNoPass says that a credential is no pass at all.
var ErrNoPass = errors.New("not a pass of the control plane")

// Pass is what the control plane signs for a console user whose session it
// has checked: a gateway serves its bearer as the owner of the key, if its
// snapshot still has that key.
func Pass(token, keyID string, now time.Time) string {
	text := keyID + "." + strconv.FormatInt(now.Add(PassAge).Unix(), 10)
	return tokenPrefix + text + "." + signature(token, text)
}

// CheckPass returns the id of the key that a pass was signed for.
func CheckPass(token, pass string, now time.Time) (keyID string, err error) {
	text, ok := strings.CutPrefix(pass, tokenPrefix)
	if !ok {
		return "", ErrNoPass
	}
	last := strings.LastIndexByte(text, '.')
	if last < 0 {
		return "", errors.New("the pass is malformed")
	}
	text, signed := text[:last], text[last+1:]
	if !hmac.Equal([]byte(signed), []byte(signature(token, text))) {
		return "", errors.New("the pass is not signed by this gateway's control plane")
	}
	keyID, until, ok := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(until, 10, 64)
	if !ok || err != nil {
		return "", errors.New("the pass is malformed")
	}
	if end := time.Unix(seconds, 0); !now.Before(end) {
		return "", fmt.Errorf("the pass ended at %s", end.UTC().Format(time.RFC3339))
	}
	return keyID, nil
}

// signature is made with a key of its own, so that no signed text can stand
// for anything else that the token proves.
func signature(token, text string) string {
	derived := hmac.New(sha256.New, []byte(token))
	derived.Write([]byte("modeldock pass v1"))
	mac := hmac.New(sha256.New, derived.Sum(nil))
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
