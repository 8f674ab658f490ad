package simulate

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// The drawing's measures, in pixels.
const (
	svgWidth, svgLeft, svgPanel, svgGap = 960, 50, 90, 34
	svgColumns                          = svgWidth - svgLeft - 20
)

// SVG draws arrivals per second and each policy's replicas over time: what was
// asked for in light, what was ready in dark.
func SVG(to io.Writer, title string, trace []Request, all []Result) error {
	end := trace[len(trace)-1].At + 1
	for _, o := range all {
		if n := len(o.Timeline); n > 0 {
			end = max(end, o.Timeline[n-1].At+1)
		}
	}
	height := (len(all)+1)*(svgPanel+svgGap) + svgGap
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", svgWidth, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	rates := make([]float64, svgColumns)
	for _, q := range trace {
		rates[column(q.At, end)] += float64(svgColumns) / end.Seconds()
	}
	panel(&b, 0, title+": requests per second", "", [][]float64{rates})
	for i, o := range all {
		asked, ready := make([]float64, svgColumns), make([]float64, svgColumns)
		for j, p := range o.Timeline {
			until := end - 1
			if j+1 < len(o.Timeline) {
				until = o.Timeline[j+1].At
			}
			for c := column(p.At, end); c <= column(until, end); c++ {
				asked[c], ready[c] = max(asked[c], float64(p.Replicas)), max(ready[c], float64(p.Ready))
			}
		}
		note := fmt.Sprintf("%.2f GPU-hours, %.2f %% in time (%d late)", o.GPUHours, 100*o.Attainment, o.Late)
		panel(&b, i+1, o.Name+": replicas", note, [][]float64{asked, ready})
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d">0</text><text x="%d" y="%d" text-anchor="end">%s</text>`+"\n</svg>\n",
		svgLeft, height-10, svgLeft+svgColumns, height-10, end.Round(time.Second))
	if _, err := io.WriteString(to, b.String()); err != nil {
		return fmt.Errorf("draw the timeline: %w", err)
	}
	return nil
}

func column(at, end time.Duration) int {
	return int(float64(at) / float64(end) * svgColumns)
}

// panel draws one row of areas that share a scale.
func panel(b *strings.Builder, row int, title, note string, areas [][]float64) {
	top, bottom, most := row*(svgPanel+svgGap)+svgGap, row*(svgPanel+svgGap)+svgGap+svgPanel, 1.0
	for _, values := range areas {
		for _, v := range values {
			most = max(most, v)
		}
	}
	var label strings.Builder
	_ = xml.EscapeText(&label, []byte(title)) // a builder takes everything
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text><text x="%d" y="%d" text-anchor="end">%s</text>`+"\n",
		svgLeft, top-6, label.String(), svgLeft+svgColumns, top-6, note)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%.4g</text><text x="%d" y="%d" text-anchor="end">0</text>`+"\n",
		svgLeft-6, top+10, most, svgLeft-6, bottom)
	for i, values := range areas {
		fmt.Fprintf(b, `<path fill="%s" d="M%d %d`, []string{"#9ecae9", "#2b6cb0"}[i], svgLeft, bottom)
		for c, v := range values {
			if c == 0 || v != values[c-1] {
				fmt.Fprintf(b, "H%dV%.1f", svgLeft+c, float64(bottom)-v/most*svgPanel)
			}
		}
		fmt.Fprintf(b, "H%dV%dZ\"/>\n", svgLeft+len(values), bottom)
	}
	fmt.Fprintf(b, `<path stroke="#444444" d="M%d %dV%dH%d" fill="none"/>`+"\n", svgLeft, top, bottom, svgLeft+svgColumns)
}
