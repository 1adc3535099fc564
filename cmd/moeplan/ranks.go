package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/topology"
)

type ranksCmd struct {
	World     int    `name:"world" aliases:"gpus" required:"" help:"Number of ranks, one a GPU."`
	TP        int    `default:"1" help:"Tensor parallel size."`
	CP        int    `default:"1" help:"Context parallel size."`
	PP        int    `default:"1" help:"Pipeline parallel size."`
	EP        int    `default:"1" help:"Expert parallel size."`
	ETP       *int   `help:"Expert tensor parallel size (default: TP, as Megatron takes it)."`
	Order     string `default:"tp-cp-ep-dp-pp" help:"Rank order string, first axis fastest."`
	Instances int    `default:"1" help:"Distributed optimizer instances."`
	GPU       string `default:"h100" help:"Platform, for nodes and NVLink domains."`
	Domain    *int   `help:"GPUs per NVLink domain (default: the platform's)."`
	Output    string `short:"o" enum:"table,json,csv,markdown" default:"table" help:"Format: table, json, csv or markdown."`
}

// groupKinds is the order of DESIGN's contract.
var groupKinds = []folding.GroupKind{
	folding.GroupTP, folding.GroupCP, folding.GroupDP, folding.GroupDPCP, folding.GroupPP, folding.GroupTPCP,
	folding.GroupTPPP, folding.GroupTPDP, folding.GroupTPDPCP, folding.GroupEP, folding.GroupETP, folding.GroupEDP,
	folding.GroupETPEP, folding.GroupETPEPPP, folding.GroupEmbedding, folding.GroupPositionEmbedding,
	folding.GroupOptimizerInstance,
}

// ranksJSON is both meshes over all ranks, with the groups that Megatron-Core builds.
type ranksJSON struct {
	World     int    `json:"world"`               // number of ranks, one a GPU: TP x CP x DP x PP, and ETP x EP x EDP x PP
	TP        int    `json:"tp"`                  // tensor parallel size
	CP        int    `json:"cp"`                  // context parallel size
	DP        int    `json:"dp"`                  // data parallel size of dense layers, derived: world / (TP x CP x PP)
	PP        int    `json:"pp"`                  // pipeline parallel size, of both meshes
	ETP       int    `json:"etp"`                 // expert tensor parallel size; TP where --etp was not given
	EP        int    `json:"ep"`                  // expert parallel size
	EDP       int    `json:"edp"`                 // data parallel size of experts, derived: world / (ETP x EP x PP)
	Order     string `json:"order"`               // rank order string; its first axis varies fastest
	Instances int    `json:"optimizer_instances"` // distributed optimizer instances
	// Groups are the groups of each family by its name, each group as its global ranks, groups and ranks in the framework's
	// own order. The families are tp, cp, dp, dp_cp, pp, tp_cp, tp_pp, tp_dp, tp_dp_cp, ep, etp, edp, etp_ep, etp_ep_pp,
	// embedding, position_embedding and optimizer_instance; all are always there.
	Groups map[folding.GroupKind][][]int `json:"groups"`
}

func (c *ranksCmd) Run(s streams) error {
	d := folding.Degrees{World: c.World, TP: c.TP, CP: c.CP, PP: c.PP, EP: c.EP, ETP: c.TP}
	if c.ETP != nil {
		d.ETP = *c.ETP
	}
	var problems []error
	for _, size := range []struct {
		name  string
		value int
	}{{"--world", d.World}, {"--tp", d.TP}, {"--cp", d.CP}, {"--pp", d.PP}, {"--ep", d.EP}, {"--etp", d.ETP}, {"--instances", c.Instances}} {
		if size.value < 1 && !(size.name == "--etp" && c.ETP == nil) { // where it follows TP, TP is at fault
			problems = append(problems, usage("%s %d is below 1", size.name, size.value))
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	if c.World > folding.MaxListed {
		return usage("--world %d is more ranks than can be listed (at most %d)", c.World, folding.MaxListed)
	}
	p, err := c.platform()
	if err != nil {
		return err
	}
	f, err := folding.New(d, folding.Order(c.Order), c.Instances)
	if err != nil {
		return &coded{exitIllegal, layout.CheckMeshes(d, folding.Order(c.Order), c.Instances)}
	}
	if c.Output == "json" {
		return c.json(s, f)
	}
	return c.picture(s, f, p)
}

// platform is that of the picture, with its own domain if one was given.
func (c *ranksCmd) platform() (*topology.Platform, error) {
	p, err := lookupPlatform(c.GPU)
	if err != nil || c.Domain == nil {
		return p, err
	}
	if err := positive("--domain", *c.Domain, layout.MaxSize); err != nil {
		return nil, err
	}
	return p.With(topology.Override{Figure: topology.FigureDomain, Value: float64(*c.Domain)})
}

func (c *ranksCmd) json(s streams, f *folding.Folding) error {
	d := f.Degrees()
	out := ranksJSON{World: d.World, TP: d.TP, CP: d.CP, DP: d.DP(), PP: d.PP, ETP: d.ETP, EP: d.EP, EDP: d.EDP(),
		Order: string(f.Order()), Instances: c.Instances, Groups: make(map[folding.GroupKind][][]int, len(groupKinds))}
	for _, k := range groupKinds {
		groups, err := f.Groups(k)
		if err != nil {
			return err
		}
		out.Groups[k] = groups
	}
	return writeJSON(s.out, out)
}

// picture shows, for the first nodes, which ranks belong together, and for each family where its groups lie.
func (c *ranksCmd) picture(s streams, f *folding.Folding, p *topology.Platform) error {
	d := f.Degrees()
	domain, err := p.UsableDomain(d)
	if err != nil {
		return err
	}
	node := domain
	if p.Node.Known {
		node = p.Node.Int()
	}
	place, err := topology.Place(f, domain)
	if err != nil {
		return err
	}
	if c.Output == "table" {
		fmt.Fprintf(s.out, "%s   order %s\n", d, f.Order())
		fmt.Fprintf(s.out, "%s: %d ranks a node, %d ranks an NVLink domain, %d domains\n\n", p.ID, node, domain, place.Domains)
		if err := drawRanks(s, f, node, domain); err != nil {
			return err
		}
	}
	t := report.Table{
		Head: []string{"group", "size", "groups", "ranks of one group", "domains", "leaves NVLink"},
		Text: []int{0, 3, 5},
	}
	for _, g := range place.Groups {
		where := "stays inside"
		switch {
		case g.Span.Size == 1:
			where = "no traffic"
		case !g.Span.Local():
			where = fmt.Sprintf("crosses: %.0f %% of all-to-all, %.0f %% of ring",
				100*g.Span.Leaving(topology.AllToAll), 100*g.Span.Leaving(topology.Ring))
		}
		t.Add(string(g.Kind), fmt.Sprint(g.Span.Size), fmt.Sprint(g.Count), brief(g.Worst), domains(g.Span), where)
	}
	return t.Write(s.out, report.Format(c.Output))
}

func domains(sp topology.Span) string {
	if sp.DomainsMin == sp.DomainsMax {
		return fmt.Sprint(sp.DomainsMax)
	}
	return fmt.Sprintf("%d-%d", sp.DomainsMin, sp.DomainsMax)
}

// brief lists a few ranks of a group.
func brief(ranks []int) string {
	const most = 6
	var b strings.Builder
	for i, r := range ranks {
		if i == most-1 && len(ranks) > most {
			fmt.Fprintf(&b, " ... %d", ranks[len(ranks)-1])
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprint(&b, r)
	}
	return b.String()
}

// drawn are the families shown rank by rank.
var drawn = []folding.GroupKind{folding.GroupTP, folding.GroupCP, folding.GroupDP, folding.GroupPP,
	folding.GroupETP, folding.GroupEP, folding.GroupEDP}

const (
	drawnRanks   = 64 // at most so many ranks are drawn
	drawnPerLine = 16
	groupLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+="
)

// drawRanks draws one letter a rank and family: equal letters in a row share a group.
func drawRanks(s streams, f *folding.Folding, node, domain int) error {
	world := f.Degrees().World
	shown := min(world, drawnRanks)
	rows := make([][]byte, len(drawn))
	for i, k := range drawn {
		row, err := letters(f, k, shown)
		if err != nil {
			return err
		}
		rows[i] = row
	}
	cell := func(r int, text string) {
		gap := " "
		switch {
		case r%drawnPerLine == 0:
			gap = ""
		case r%domain == 0:
			gap = " || "
		case r%node == 0:
			gap = " | "
		}
		fmt.Fprintf(s.out, "%s%3s", gap, text)
	}
	for first := 0; first < shown; first += drawnPerLine {
		last := min(first+drawnPerLine, shown)
		fmt.Fprintf(s.out, "%-5s", "rank")
		for r := first; r < last; r++ {
			cell(r, fmt.Sprint(r))
		}
		fmt.Fprintln(s.out)
		for i, k := range drawn {
			if f.Size(k) == 1 {
				continue
			}
			fmt.Fprintf(s.out, "%-5s", k)
			for r := first; r < last; r++ {
				cell(r, string(rows[i][r]))
			}
			fmt.Fprintln(s.out)
		}
		fmt.Fprintln(s.out)
	}
	fmt.Fprintf(s.out, "equal letters in a row share a group;  | next node  || next NVLink domain")
	if shown < world {
		fmt.Fprintf(s.out, ";  %d more ranks not drawn", world-shown)
	}
	fmt.Fprint(s.out, "\n\n")
	return nil
}

// letters names the groups of a family by the order in which they appear among the first ranks.
func letters(f *folding.Folding, k folding.GroupKind, shown int) ([]byte, error) {
	groups, err := f.Groups(k)
	if err != nil {
		return nil, err
	}
	of := make([]int, shown)
	for g, ranks := range groups {
		for _, r := range ranks {
			if r < shown {
				of[r] = g
			}
		}
	}
	names := make(map[int]byte, shown)
	row := make([]byte, shown)
	for r, g := range of {
		if _, ok := names[g]; !ok {
			names[g] = groupLetters[len(names)%len(groupLetters)]
		}
		row[r] = names[g]
	}
	return row, nil
}
