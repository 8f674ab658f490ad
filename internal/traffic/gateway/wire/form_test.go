package wire_test

import (
	"errors"
	"strings"
	"testing"

	"modeldock.io/internal/traffic/gateway/wire"
)

const formType = `multipart/form-data; boundary=xxBxx`

// formOf joins parts, each a header and a body, into a form.
func formOf(parts ...string) string {
	var b strings.Builder
	for i := 0; i < len(parts); i += 2 {
		b.WriteString("--xxBxx\r\nContent-Disposition: form-data; " + parts[i] + "\r\n\r\n" + parts[i+1] + "\r\n")
	}
	return b.String() + "--xxBxx--\r\n"
}

func TestScanForm(t *testing.T) {
	t.Parallel()
	sound := "RIFF\x00\x01\r\n\r\n--xx\r\n\xff"
	body := formOf(`name="file"; filename="a.wav"`, sound, `name="model"`, "m1", `name="stream"`, "True", `name=response_format`, "srt")
	got, err := wire.ScanForm([]string{formType}, []byte(body))
	if err != nil || got.Model != "m1" || !got.HasModel || !got.Stream || !got.Plain {
		t.Fatalf("%+v %v", got, err)
	}
	pieces, length := wire.Pieces([]byte(body), got.Patches("engine-name", true))
	sent := ""
	for _, p := range pieces {
		sent += string(p)
	}
	if want := strings.Replace(body, "\r\n\r\nm1\r\n", "\r\n\r\nengine-name\r\n", 1); sent != want || length != int64(len(want)) {
		t.Errorf("sent %q, want %q", sent, want)
	}
}

// TestScanFormRefuses: whatever two readers could take for two models.
func TestScanFormRefuses(t *testing.T) {
	t.Parallel()
	file := formOf(`name="file"; filename="a"`, "x")
	cases := map[string]struct{ contentType, body, code string }{
		"two models":          {formType, formOf(`name="model"`, "m1", `name="model"`, "m2"), "ambiguous_model"},
		"another case":        {formType, formOf(`name="model"`, "m1", `name="Model"`, "m2"), "ambiguous_model"},
		"model as a file":     {formType, formOf(`name="model"; filename="x"`, "m1"), "invalid_type"},
		"a long model":        {formType, formOf(`name="model"`, strings.Repeat("m", 2000)), "invalid_type"},
		"an encoded name":     {formType, formOf(`name*=utf-8''model`, "m1"), "invalid_form"},
		"a name with escapes": {formType, formOf(`name="mo\"del"`, "m1"), "invalid_form"},
		"a folded header":     {formType, formOf("name=\"model\";\r\n a=b", "m1"), "invalid_form"},
		"bare line feeds":     {formType, strings.ReplaceAll(formOf(`name="model"`, "m1"), "\r\n", "\n"), "invalid_form"},
		"a boundary after LF": {formType, formOf(`name="prompt"`, "x\n--xxBxx\nContent-Disposition: form-data; name=\"model\"\n\nm2", `name="model"`, "m1"), "invalid_form"},
		"almost a boundary":   {formType, formOf(`name="prompt"`, "x\r\n--xxBxxY\r\n", `name="model"`, "m1"), "invalid_form"},
		"no end":              {formType, strings.TrimSuffix(file, "--xxBxx--\r\n"), "invalid_form"},
		"torn":                {formType, file[:len(file)/2], "invalid_form"},
		"an epilogue":         {formType, file + "--xxBxx", "invalid_form"},
		"a preamble":          {formType, "\r\n" + file, "invalid_form"},
		"nothing":             {formType, "", "invalid_form"},
		"no boundary":         {"multipart/form-data", file, "unsupported_media_type"},
		"JSON":                {"application/json", `{"model":"m1"}`, "unsupported_media_type"},
		"an encoded boundary": {"multipart/form-data; boundary*=utf-8''xxBxx", file, "unsupported_media_type"},
		"base64": {formType, strings.Replace(formOf(`name="model"`, "bTE="), "\r\n\r\n", "\r\nContent-Transfer-Encoding: base64\r\n\r\n", 1),
			"invalid_form"},
		"many parts": {formType, formOf(func() (p []string) {
			for range 100 {
				p = append(p, `name="a"`, "1")
			}
			return p
		}()...), "invalid_form"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := wire.ScanForm([]string{c.contentType}, []byte(c.body))
			var known *wire.RequestError
			if !errors.As(err, &known) || known.Code != c.code {
				t.Errorf("%v, want code %s", err, c.code)
			}
		})
	}
	if _, err := wire.ScanForm([]string{formType, "application/json"}, []byte(file)); err == nil {
		t.Error("two content types are taken")
	}
}

func FuzzScanForm(f *testing.F) {
	f.Add([]byte(formOf(`name="file"; filename="a.wav"`, "x", `name="model"`, "m1")))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := wire.ScanForm([]string{formType}, body)
		if err != nil || !got.HasModel {
			return
		}
		pieces, _ := wire.Pieces(body, got.Patches(got.Model, false))
		sent := ""
		for _, p := range pieces {
			sent += string(p)
		}
		if sent != string(body) {
			t.Errorf("putting the same model in changes %q into %q", body, sent)
		}
	})
}
