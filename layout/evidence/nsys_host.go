package evidence

import (
	"math"
	"slices"

	"github.com/moeplan/moeplan/layout/evidence/sqlite"
)

// maxNodes bounds the nodes of CUDA graphs whose creation is looked at, and maxHops how often a graph was cloned.
const (
	maxNodes = 1 << 20
	maxHops  = 8
)

// origin is where on the host something came from.
type origin struct {
	thread, at int64
	known      bool
}

// hostCalls reads what the host did: which call launched what, and in which ranges.
func (x *exportReader) hostCalls() error {
	launches, asked := []int64{}, []int64{}
	for i := range x.events {
		if e := &x.events[i]; e.launch > 0 {
			launches = append(launches, e.launch)
			if e.class == classComm && e.kind == KindOther {
				asked = append(asked, e.launch)
			}
		}
	}
	launches, asked = unique(launches), unique(asked)
	origins := make([]origin, len(asked))
	if err := x.scanCalls(launches, asked, origins); err != nil {
		return err
	}
	created, err := x.scanNodes()
	if err != nil {
		return err
	}
	return x.project(asked, origins, created)
}

// scanCalls keeps the calls that launched something.
func (x *exportReader) scanCalls(launches, asked []int64, origins []origin) error {
	// The caching allocator fills its cache in the first steps, which an export of a whole run holds; what it asks for later is
	// for want of memory.
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range x.events {
		first, last = min(first, x.events[i].start), max(last, x.events[i].end)
	}
	middle := first/2 + last/2
	only := int64(-1) // with kernels that do not tell their process: the process of all calls
	err := x.scan(tableCalls, func(v []sqlite.Value) error {
		x.trace.Events++
		start, ok := instant(v[0])
		end, ended := instant(v[1])
		if !ok || !ended {
			x.skipped++
			return nil
		}
		name, err := x.callName(v[4])
		if err != nil {
			return err
		}
		switch {
		case allocates(name) && start < middle:
			x.earlier++
		case allocates(name):
			x.trace.AllocatorCalls++
		case launchesGraph(name):
			x.counts[FeatureGraphReplay]++
		}
		id := x.launchID(v[2], v[3])
		if _, ok := slices.BinarySearch(launches, id); id == 0 || !ok || len(x.launches) >= maxLaunches {
			return nil
		}
		if process := v[2].Int >> threadBits; x.blind && only >= 0 && process != only {
			x.mixed = true
		} else {
			only = process
		}
		x.launches = append(x.launches, launch{id, max(start, end)})
		if i, ok := slices.BinarySearch(asked, id); ok && !origins[i].known && v[2].Kind == sqlite.Integer {
			origins[i] = origin{v[2].Int, start, true}
		}
		return nil
	}, "start", "end", "globalTid", "correlationId", "nameId")
	if x.mixed {
		x.launches = nil
		clear(origins)
	}
	return err
}

func (x *exportReader) callName(id sqlite.Value) (string, error) {
	if name, ok := x.calls[id.Int]; ok && id.Kind == sqlite.Integer {
		return name, nil
	}
	name, err := x.name(id)
	if err == nil && id.Kind == sqlite.Integer && len(x.calls) < maxNames {
		x.calls[id.Int] = name
	}
	return name, err
}

// scanNodes finds where the nodes of communication kernels in CUDA graphs were created. A graph that is instantiated or cloned
// has nodes of its own that name the original.
func (x *exportReader) scanNodes() ([]origin, error) {
	if len(x.graphed) == 0 {
		return nil, nil
	}
	type creation struct {
		origin
		original int64
	}
	nodes := map[nodeID]creation{}
	err := x.scan(tableNodes, func(v []sqlite.Value) error {
		if v[1].Kind == sqlite.Integer && len(nodes) < maxNodes {
			id := x.node(v[1], v[2])
			if c, ok := nodes[id]; !ok || v[3].Int != 0 && c.original == 0 {
				nodes[id] = creation{origin{v[1].Int, v[0].Int, true}, v[3].Int}
			}
		}
		return nil
	}, "start", "globalTid", "graphNodeId", "originalGraphNodeId")
	out := make([]origin, len(x.graphed))
	for i, g := range x.graphed {
		c, ok := nodes[g.node]
		for hops := 0; ok && c.original != 0 && hops < maxHops; hops++ {
			c, ok = nodes[nodeID{g.node.process, c.original}]
		}
		if ok {
			out[i] = c.origin
		}
	}
	return out, err
}

// project gives kernels the axes of the ranges around their calls. asked are the launches of kernels whose axis is not known, with
// their origins; created are those of the kernels in graphs, which tell more than the launch of the whole graph.
func (x *exportReader) project(asked []int64, origins, created []origin) error {
	threads := map[int64]bool{}
	var moments []moment
	for _, list := range [][]origin{origins, created} {
		for _, o := range list {
			if o.known {
				threads[o.thread] = true
			}
			// Those that are not known ask about a thread that has no range.
			moments = append(moments, moment{o.thread, o.at})
		}
	}
	if len(threads) == 0 {
		return nil
	}
	if err := x.scanRanges(threads); err != nil {
		return err
	}
	found := innermost(x.ranges, moments)
	x.ranges = nil
	for i, g := range x.graphed {
		if created[i].known {
			x.settle(&x.events[g.event], found[len(asked)+i])
		}
	}
	for i := range x.events {
		e := &x.events[i]
		if e.class != classComm || e.kind != KindOther {
			continue
		}
		if n, ok := slices.BinarySearch(asked, e.launch); ok && origins[n].known {
			x.settle(e, found[n])
		}
	}
	return nil
}

// scanRanges keeps the NVTX ranges of some threads that tell an axis.
func (x *exportReader) scanRanges(threads map[int64]bool) error {
	return x.scan(tableNVTX, func(v []sqlite.Value) error {
		x.trace.Events++
		kind := v[2]
		if kind.Kind == sqlite.Integer && kind.Int != pushPopRange && kind.Int != startEndRange || !threads[v[3].Int] || v[0].Kind != sqlite.Integer {
			return nil
		}
		// A range that ended on another thread is no thread's, and a mark has no end. A range that was never popped lasts.
		end := v[1].Int
		if v[4].Kind == sqlite.Integer && v[4].Int != 0 && v[4].Int != v[3].Int || v[1].Kind != sqlite.Integer && kind.Kind != sqlite.Integer {
			return nil
		}
		if v[1].Kind != sqlite.Integer {
			end = math.MaxInt64
		}
		a, err := x.rangeAxis(v[5], v[6])
		if err != nil || !a.known {
			return err
		}
		if x.overfull = x.overfull || len(x.ranges) >= maxRanges; !x.overfull {
			x.ranges = append(x.ranges, axisRange{v[3].Int, Interval{v[0].Int, end}, a})
		}
		return nil
	}, "start", "end", "eventType", "globalTid", "endGlobalTid", "text", "textId")
}

// rangeAxis reads the name of a range, which stands in the row or, where it was registered, among the strings.
func (x *exportReader) rangeAxis(text, id sqlite.Value) (axis, error) {
	if text.Kind == sqlite.Text && len(text.Bytes) > 0 {
		return rangeKind(string(text.Bytes)), nil
	}
	if a, ok := x.axes[id.Int]; ok && id.Kind == sqlite.Integer {
		return a, nil
	}
	name, err := x.name(id)
	a := rangeKind(name)
	if err == nil && id.Kind == sqlite.Integer && len(x.axes) < maxNames {
		x.axes[id.Int] = a
	}
	return a, err
}
