package evidence

import (
	"github.com/moeplan/moeplan/layout/evidence/sqlite"
)

// activities reads what ran on devices.
func (x *exportReader) activities() error {
	x.blind = !x.has(tableKernels, "globalPid") && !x.has(tableGraphs, "globalPid")
	if err := x.scan(tableKernels, x.kernel, "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "demangledName", "shortName", "graphNodeId"); err != nil {
		return err
	}
	for _, t := range []struct {
		table string
		class class
	}{{tableCopies, classCopy}, {tableFills, classCopy}, {tableGraphs, classGraph}} {
		err := x.scan(t.table, func(v []sqlite.Value) error {
			return x.ran(v, namedKernel{class: t.class, kind: KindOther})
		}, "start", "end", "deviceId", "streamId", "correlationId", "globalPid")
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *exportReader) kernel(v []sqlite.Value) error {
	// The full name tells namespaces, such as deep_ep's; the short one is its last part.
	id := v[6]
	if id.Kind == sqlite.Null {
		id = v[7]
	}
	named, err := x.namedKernel(id)
	if err != nil {
		return err
	}
	x.counts[named.feature]++
	before := len(x.events)
	if err := x.ran(v, named); err != nil || len(x.events) == before {
		return err
	}
	if e := &x.events[before]; v[8].Kind == sqlite.Integer && e.class == classComm && e.kind == KindOther {
		x.graphed = append(x.graphed, graphKernel{int32(before), x.node(v[5], v[8])})
	}
	return nil
}

// node identifies a node of a CUDA graph.
func (x *exportReader) node(global, node sqlite.Value) nodeID {
	if x.blind {
		return nodeID{0, node.Int}
	}
	return nodeID{global.Int >> threadBits, node.Int}
}

// ran keeps an activity: start, end, device, stream, correlation and process.
func (x *exportReader) ran(v []sqlite.Value, named namedKernel) error {
	x.trace.Events++
	start, ok := instant(v[0])
	end, ended := instant(v[1])
	if !ok || !ended {
		x.skipped++
		return nil
	}
	launch := x.launchID(v[5], v[4])
	device, err := x.slot(v[5], v[2])
	if err != nil {
		return err
	}
	x.add(gpuEvent{start: start, end: max(start, end), launch: launch, device: device, group: -1, kind: named.kind, class: named.class, op: named.op})
	return x.err
}

// nameless stands in the cache for a name that is not among the strings.
var nameless = namedKernel{class: classCompute, kind: numKinds}

func (x *exportReader) namedKernel(id sqlite.Value) (namedKernel, error) {
	named, ok := x.kernels[id.Int]
	if !ok || id.Kind != sqlite.Integer {
		name, err := x.name(id)
		if err != nil {
			return namedKernel{}, err
		}
		if named = nameless; name != "" {
			named = nameKernel(name)
		}
		if id.Kind == sqlite.Integer && len(x.kernels) < maxNames {
			x.kernels[id.Int] = named
		}
	}
	if named == nameless {
		x.unnamed++
		return namedKernel{}, nil
	}
	return named, nil
}
