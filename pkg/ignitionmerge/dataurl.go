// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package ignitionmerge

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/vincent-petithory/dataurl"
)

// dataURL holds content in the way that takes the same space whatever the content is.
func dataURL(content []byte) string {
	return "data:;base64," + base64.StdEncoding.EncodeToString(content)
}

// decodeDataURL returns what a data URL holds. The library that Ignition reads them with goes through them character by
// character; it is asked only about those that are out of the ordinary.
func decodeDataURL(source string) (content []byte, ok bool) {
	header, payload, ordinary := splitDataURL(source)
	switch {
	case !ordinary:
		u, err := dataurl.DecodeString(source)
		if err != nil {
			return nil, false
		}
		return u.Data, true
	case strings.HasSuffix(header, ";base64"):
		content, err := base64.StdEncoding.DecodeString(payload)
		return content, err == nil
	default:
		text, err := url.PathUnescape(payload)
		return []byte(text), err == nil
	}
}

// splitDataURL cuts an ordinary data URL in two. Its payload is sure to be valid, its header is not.
func splitDataURL(source string) (header, payload string, ok bool) {
	header, payload, found := strings.Cut(source, ",")
	if !found || !strings.HasPrefix(header, "data:") || strings.ContainsAny(header, `"%\`) {
		return "", "", false
	}
	if strings.HasSuffix(header, ";base64") {
		return header, payload, isBase64(payload)
	}
	return header, payload, isEscaped(payload)
}

func isBase64(payload string) bool {
	digits := strings.TrimRight(payload, "=")
	if len(payload)%4 != 0 || len(payload)-len(digits) > 2 {
		return false
	}
	for i := range len(digits) {
		if class[digits[i]]&base64Digit == 0 {
			return false
		}
	}
	return true
}

func isEscaped(payload string) bool {
	for i := 0; i < len(payload); i++ {
		switch {
		case class[payload[i]]&plain != 0:
		case payload[i] == '%' && i+2 < len(payload) && class[payload[i+1]]&class[payload[i+2]]&hexDigit != 0:
			i += 2
		default:
			return false
		}
	}
	return true
}

// Classes of characters in data URLs (RFC 2397, RFC 2396).
const (
	plain = 1 << iota
	base64Digit
	hexDigit
)

// class has the classes of each character.
var class = func() (c [256]byte) {
	for _, set := range []struct {
		class      byte
		characters string
	}{
		{plain | base64Digit | hexDigit, "0123456789ABCDEFabcdef"},
		{plain | base64Digit, "GHIJKLMNOPQRSTUVWXYZghijklmnopqrstuvwxyz+/"},
		{plain, "-_.!~*'();?:@&=$,"},
	} {
		for _, r := range []byte(set.characters) {
			c[r] = set.class
		}
	}
	return c
}()
