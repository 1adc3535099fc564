package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
)

// view is the page in the order in which it is read.
type view struct {
	Title    string
	Model    string // its sizes in words
	Assumed  []assumption
	Best     *planView
	Plans    []planView
	Columns  []column
	Front    frontChart
	Machines []*machine
	Miss     *plan.Miss
	MissText []string
	Ways     []way
	Searched searched
	Compared []string
	Notes    []string
	Sources  provenance
	Order    string
	Data     map[string]planData
}

// way is a change after which something fits.
type way struct{ Change, Cost, Key string }

// planData is what the script needs to know of a plan: what the status line says.
type planData struct {
	Label string `json:"label"`
	Short string `json:"short"`
	Tuned string `json:"tuned"`
	Free  string `json:"free"`
}

func titleOf(a *Answer) string {
	q := &a.Result.Request
	return fmt.Sprintf("%s on %s", a.Model.ID, plural(q.GPUs, strings.ToUpper(q.Platform)+" GPU"))
}

func viewOf(a *Answer) (*view, error) {
	r := a.Result
	v := &view{Title: titleOf(a), Model: modelWords(a), Assumed: assumptions(a), Columns: columns, Searched: searchedOf(&r.Searched),
		Notes: r.Notes, Sources: provenanceOf(a), Order: r.Request.OrderedBy, Data: map[string]planData{}}
	if len(r.Plans) == 0 {
		v.miss(r)
		return v, nil
	}
	add := func(p *plan.Plan, label string) error {
		pv, err := planOf(a, p, label, &v.Machines)
		if err != nil {
			return err
		}
		pv.First = len(v.Plans) == 0
		v.Plans = append(v.Plans, pv)
		v.Data[pv.ID] = planData{label, pv.Short, seconds(pv.ms), fmt.Sprintf("%.1f", pv.headroom)}
		return nil
	}
	for i := range r.Plans {
		if err := add(&r.Plans[i], fmt.Sprint(r.Plans[i].Rank)); err != nil {
			return nil, err
		}
	}
	for i := range a.Front {
		if err := add(&a.Front[i], letter(i)); err != nil {
			return nil, err
		}
	}
	v.Best = &v.Plans[0]
	kept := 0.0
	if r.Assumes("headroom") { // else it is kept free above more than the allocated peak, which the front does not show
		kept = r.Request.HeadroomGiB
	}
	v.Front = frontOf(v.Plans, r.Pareto, kept)
	v.Compared = compared(r)
	return v, nil
}

// letter numbers the plans that only the front holds, so that they are not taken for ranks.
func letter(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return letter(i/26-1) + letter(i%26)
}

func modelWords(a *Answer) string {
	m, q := a.Model, &a.Result.Request
	total, active := float64(q.ParametersTotal)/1e9, float64(q.ParametersActive)/1e9
	text := fmt.Sprintf("%.1f B parameters, dense, %d layers", total, m.NumLayers)
	if m.MoE != nil {
		text = fmt.Sprintf("%.1f B parameters, %.1f B active, %d layers, %d experts top-%d", total, active,
			m.NumLayers, m.MoE.NumExperts, m.MoE.TopK)
	}
	if m.MTPNumLayers > 0 {
		text += fmt.Sprintf(", %d MTP", m.MTPNumLayers)
	}
	return text
}

// assumption is a value of the question; Flag sets it if nobody did.
type assumption struct {
	Name, Value, Flag string
	Assumed           bool
}

func assumptions(a *Answer) []assumption {
	r, q := a.Result, &a.Result.Request
	nodes := (q.GPUs + q.GPUsPerNode - 1) / q.GPUsPerNode
	list := []assumption{
		{Name: "GPUs", Value: fmt.Sprintf("%s: %s × %d, NVLink domain %d",
			q.Platform, plural(nodes, "node"), min(q.GPUsPerNode, q.GPUs), q.NVLinkDomain),
			Flag: "--gpu", Assumed: r.Assumes("gpu")},
		{Name: "memory", Value: fmt.Sprintf("the peak may take %.2f of %.2f GiB",
			q.MemoryGiB-q.HeadroomGiB-q.ReserveGiB, q.MemoryGiB),
			Flag: "--headroom", Assumed: r.Assumes("headroom")},
		{Name: "sequence", Value: thousands(q.SeqLength) + " tokens", Flag: "--seq", Assumed: r.Assumes("seq_length")},
		{Name: "global batch", Value: thousands(q.GlobalBatchSize) + " sequences",
			Flag: "--global-batch", Assumed: r.Assumes("global_batch_size")},
		{Name: "precision", Value: q.Precision, Flag: "--precision"},
		{Name: "gradients", Value: q.Gradients, Flag: "--grads", Assumed: r.Assumes("gradients")},
		{Name: "moments", Value: q.Moments + ", distributed Adam", Flag: "--moments", Assumed: r.Assumes("optimizer")},
	}
	list = append(list, assumption{Name: "software", Value: "Core main, expandable segments"})
	if a.Model.MoE != nil {
		routing := "balanced"
		if q.Imbalance != 1 {
			routing = fmt.Sprintf("imbalance %.2f", q.Imbalance)
		}
		list = append(list, assumption{Name: "routing", Value: routing, Flag: "--imbalance", Assumed: r.Assumes("imbalance")})
	}
	return list
}

// compared are sentences about what the answer was held against.
func compared(r *plan.Result) []string {
	var list []string
	if f := r.Folding; f != nil {
		text := "Without folding (EP within DP, ETP = TP) nothing fits."
		if f.SlowerBy != nil {
			text = fmt.Sprintf("Without folding (EP within DP, ETP = TP) the best takes %s longer: %s.", percent(*f.SlowerBy), f.Key)
		}
		list = append(list, text)
	}
	if r.BF16Gradients != "" {
		list = append(list, strings.ToUpper(r.BF16Gradients[:1])+r.BF16Gradients[1:]+".")
	}
	return list
}

// miss explains why nothing fits, and what would.
func (v *view) miss(r *plan.Result) {
	m := r.NearestMiss
	if v.Miss = m; m == nil {
		return
	}
	v.MissText = []string{
		fmt.Sprintf("It needs %s GiB allocated on stage %d; with what lies outside, %s GiB over the limit.",
			gibs(m.PeakBytes), m.Stage, gibs(m.OverBytes)),
		fmt.Sprintf("Largest part: %s, %s GiB.", m.Component, gibs(m.ComponentBytes)),
	}
	for _, w := range m.Remedies {
		v.Ways = append(v.Ways, way{w.Change, w.Cost, w.Key})
	}
	if m.SmallestGPUs != nil {
		v.Ways = append(v.Ways, way{fmt.Sprintf("%s GPUs", thousands(*m.SmallestGPUs)),
			"the fewest, in whole nodes, on which a layout fits", *m.SmallestKey})
	}
}

// searched says what was looked at and what cut the rest.
type searched struct {
	Meshes, Layouts, Illegal, Legal, NoFit, Fit, Excluded string
	Rules                                                 []ruleCount
	NotSearched                                           []string
}

type ruleCount struct{ Rule, Count, Share string }

func searchedOf(s *plan.Searched) searched {
	v := searched{Meshes: thousands(s.Meshes), Layouts: thousands(s.Layouts),
		Illegal: thousands(s.Layouts - s.Legal), Legal: thousands(s.Legal),
		NoFit: thousands(s.Legal - s.Excluded - s.Fit), Fit: thousands(s.Fit), NotSearched: s.NotSearched}
	if s.Excluded > 0 {
		v.Excluded = thousands(s.Excluded)
	}
	most := 1
	for _, n := range s.RejectedByRule {
		most = max(most, n)
	}
	rules := slices.SortedFunc(maps.Keys(s.RejectedByRule), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.RejectedByRule[b], s.RejectedByRule[a]), cmp.Compare(a, b))
	})
	for _, rule := range rules {
		n := s.RejectedByRule[rule]
		v.Rules = append(v.Rules, ruleCount{rule, thousands(n), at(float64(n) / float64(most))})
	}
	return v
}

// provenance says where the figures come from.
type provenance struct {
	Version    string
	Figures    []figure
	Model      []string
	Unverified []string
	Notes      []string
}

type figure struct{ Name, Value, Source, Note string }

func provenanceOf(a *Answer) provenance {
	p := provenance{Version: a.Version, Model: a.Model.Sources, Unverified: a.Model.Unverified, Notes: a.Platform.Notes}
	for _, id := range topology.Figures() {
		f := a.Platform.Figure(id)
		if !f.Known {
			continue
		}
		p.Figures = append(p.Figures, figure{strings.ReplaceAll(string(id), "_", " "), f.String(),
			topology.SourceText(f.Source), f.Note})
	}
	return p
}
