package picture

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fpmrun/fpmrun/artifact"
)

// A browser shows the page on light and dark paper with every line of its figures.
func TestBrowserShowsPage(t *testing.T) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("no chromium, chromium-browser or google-chrome on the PATH: the page is not looked at in a browser (Debian: apt-get install chromium)")
	}
	r := newReport(t, []*artifact.Observed{launch(2, 1)}, nil)
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(page, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, scheme string
		paper        color.RGBA
		dark         bool
	}{
		{"light", "1", color.RGBA{0xff, 0xff, 0xff, 0xff}, false},
		{"dark", "0", color.RGBA{0x16, 0x18, 0x1b, 0xff}, true},
	} {
		shot := screenshot(t, browser, page, c.scheme)
		total := shot.Bounds().Dx() * shot.Bounds().Dy()
		if n := pixels(shot, c.paper); n < total/3 || n > total*19/20 {
			t.Errorf("%s: %d of %d pixels are paper", c.name, n, total)
		}
		for _, lines := range []int{10, 4} { // decode, prefill
			for i := range lines {
				want, dark := lineColor(i, lines)
				if c.dark {
					want = dark
				}
				if n := pixels(shot, want); n < 20 {
					t.Errorf("%s: line %d of %d has %d pixels of %v", c.name, i+1, lines, n, want)
				}
			}
		}
	}
}

func screenshot(t *testing.T, browser, page, scheme string) image.Image {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	path := filepath.Join(t.TempDir(), "shot.png")
	cmd := exec.CommandContext(ctx, browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb", "--user-data-dir="+t.TempDir(),
		"--blink-settings=preferredColorScheme="+scheme, "--window-size=1300,1800", "--screenshot="+path, "file://"+page)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	shot, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return shot
}
