package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/moeplan/moeplan/layout/evidence"
)

// Overlap writes what a trace shows of communication and computation, and what its steps wait for.
func Overlap(w io.Writer, t *evidence.Trace, v *evidence.WallVerdict, sources bool) error {
	p := printerTo(w)
	head := fmt.Sprintf("%s: %s in %d events", t.Name, plural(len(t.Devices), "device"), t.Events)
	if t.Rank != nil && t.World != nil {
		head += fmt.Sprintf(", rank %d of %d", *t.Rank, *t.World)
	}
	if t.Steps > 0 {
		head += ", " + plural(int(t.Steps), "step")
	}
	p.prose("TRACE", head)
	p.blank()
	p.prose("TIME", "ms, unions of intervals from the first kernel to the last; axes can overlap and do not add up")
	table := Table{Head: []string{"device", "what", "total", "hidden", "exposed", "of span", "kernels"}, Text: []int{0, 1}}
	for i := range t.Devices {
		addDevice(&table, &t.Devices[i])
	}
	if err := table.Write(w, Text); err != nil {
		return err
	}
	p.blank()
	if t.Guessed > 0 {
		p.prose("GUESSED", fmt.Sprintf("%s: no process group is named, the operation decides (all-to-all EP, send and receive PP)", plural(t.Guessed, "kernel")))
	}
	for _, n := range t.Notes {
		p.prose("NOTE", n)
	}
	if v.Wall == "" {
		return nil
	}
	for _, wall := range evidence.Walls {
		label := strings.ToUpper(wall)
		if wall == "communication" {
			label = "COMM"
		}
		for _, f := range v.Reasons[wall] {
			p.prose(label, withSource(f.Text, f.Source, sources))
			label = ""
		}
	}
	for _, u := range v.Unknown {
		p.prose("UNKNOWN", u)
	}
	p.blank()
	wall := v.Wall
	if v.Axis != "" {
		wall += ", " + v.Axis + " first"
	}
	p.prose("WALL", fmt.Sprintf("%s (device %s)", wall, v.Device))
	label := "TRY"
	for _, f := range v.Fixes {
		text := f.What
		if f.Flags != "" {
			text += ": " + f.Flags
		}
		p.prose(label, withSource(text, f.Source, sources))
		label = ""
	}
	return nil
}

func withSource(text, source string, sources bool) string {
	if !sources {
		return text
	}
	return fmt.Sprintf("%s [%s]", text, source)
}

func addDevice(t *Table, d *evidence.DeviceTrace) {
	ms := func(n int64) string { return fmt.Sprintf("%.3f", float64(n)/1e6) }
	share := func(n int64) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(1, d.Span))) }
	t.Add(d.Device, "compute", ms(d.Compute), "", "", share(d.Compute), fmt.Sprint(d.ComputeKernels))
	kernels := 0
	for i := range d.Kinds {
		kernels += d.Kinds[i].Kernels
	}
	t.Add("", "communication", ms(d.Communication), ms(d.Hidden), ms(d.Exposed), share(d.Exposed), fmt.Sprint(kernels))
	for i := range d.Kinds {
		k := &d.Kinds[i]
		t.Add("", "  "+k.Kind.String(), ms(k.Total), ms(k.Hidden), ms(k.Exposed), share(k.Exposed), fmt.Sprint(k.Kernels))
	}
	if d.Copy > 0 {
		t.Add("", "copies", ms(d.Copy), "", "", share(d.Copy), "")
	}
	if d.GraphRuns > 0 {
		t.Add("", "graphs, contents not recorded", ms(d.Graphs), "", "", share(d.Graphs), "")
	}
	t.Add("", "idle", ms(d.Idle), "", "", share(d.Idle), "")
	if d.Launched > 0 {
		t.Add("", "  nothing queued", ms(d.HostIdle), "", "", share(d.HostIdle), "")
	}
	t.Add("", "span", ms(d.Span), "", "", "", "")
}
