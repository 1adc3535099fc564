package calibrate

import (
	"bytes"
	"compress/gzip"
	_ "embed" // the measurements
	"encoding/json"
	"fmt"
	"sync"
)

// Record is one measurement with its configuration.
type Record struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`   // where it comes from: megatron-functional-test, simumax-b200-real-run, ...
	Source string `json:"source"` // repository, commit and path, or paper and table
	Model  string `json:"model"`  // as the source calls it
	Family string `json:"family"` // dense, moe or hybrid

	GPU         string `json:"gpu,omitempty"` // A100, H100, GB200, B200, ...; "" where the source does not say
	Platform    string `json:"platform,omitempty"`
	Environment string `json:"environment,omitempty"` // dev or lts container
	Listed      bool   `json:"listed,omitempty"`      // the configuration belongs to a test that still runs
	SecondRun   bool   `json:"second_run,omitempty"`  // resumed from a checkpoint

	World int               `json:"world,omitempty"` // GPUs; 0 is unknown
	Argv  []string          `json:"argv,omitempty"`  // Megatron-LM's; empty where the source holds no complete configuration
	Env   map[string]string `json:"env,omitempty"`
	// Config is what a source without a command line says about the run.
	Config json.RawMessage `json:"config,omitempty"`

	Measured Measured `json:"measured"`
	Caveats  []string `json:"caveats,omitempty"`
	Note     string   `json:"note,omitempty"`
}

// Measured are the bytes that a source states; 0 is not measured.
type Measured struct {
	AfterStep int64 `json:"after_step,omitempty"` // allocated after the last step
	Peak      int64 `json:"peak,omitempty"`       // largest allocated before the first save, else at the end
	PeakLast  int64 `json:"peak_last,omitempty"`  // largest allocated at the end
	Reserved  int64 `json:"reserved,omitempty"`   // largest reserved
	Device    int64 `json:"device,omitempty"`     // as the card sees it
	// Other is a figure of another kind (a saving, an estimate), with its name.
	Other     int64  `json:"other,omitempty"`
	OtherName string `json:"other_name,omitempty"`
}

//go:embed data/measured-memory.json.gz
var measured []byte

// Records returns all 589 measurements in the order of the source file. The slice is shared and read-only.
func Records() []Record { return records() }

var records = sync.OnceValue(func() []Record {
	z, err := gzip.NewReader(bytes.NewReader(measured))
	if err != nil {
		panic(fmt.Sprintf("bug: embedded measurements: %v", err))
	}
	var out []Record
	if err := json.NewDecoder(z).Decode(&out); err != nil {
		panic(fmt.Sprintf("bug: embedded measurements: %v", err))
	}
	return out
})
