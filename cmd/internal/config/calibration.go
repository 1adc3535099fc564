package config

import (
	"fmt"
	"io"

	"github.com/goccy/go-yaml"
	"github.com/moeplan/moeplan/topology/steptime"
)

// Calibration is what moeplan calibrate found out about one kind of machine.
type Calibration struct {
	GPU     string             `yaml:"gpu"` // platform of the runs
	Runs    int                `yaml:"runs"`
	Factors CalibrationFactors `yaml:"factors"`
	// Errors of the step time, as shares, mean over the runs.
	Before  float64 `yaml:"error_before"`
	LeftOut float64 `yaml:"error_left_out"`
	// Memory is what moeplan verify --calibrate found; nil if nobody asked.
	Memory *CalibrationMemory `yaml:"memory,omitempty"`
}

// CalibrationMemory is how measured peaks differ from predicted ones.
type CalibrationMemory struct {
	// OffsetGiB is the largest measured allocated peak less its prediction; above 0 it is kept free beside the headroom.
	OffsetGiB float64 `yaml:"offset_gib"`
	Ranks     int     `yaml:"ranks"`
}

// maxOffset bounds what a calibration may take of a card, GiB.
const maxOffset = 64

// CalibrationFactors multiply the times of four parts of a step.
type CalibrationFactors struct {
	Compute float64 `yaml:"compute"`
	NVLink  float64 `yaml:"nvlink"`
	NIC     float64 `yaml:"nic"`
	Host    float64 `yaml:"host"`
}

// Of are the factors as the step-time model takes them.
func (f CalibrationFactors) Of() steptime.Factors {
	return steptime.Factors{Compute: f.Compute, NVLink: f.NVLink, NIC: f.NIC, Host: f.Host}
}

// ReadCalibration reads what WriteCalibration wrote. name is that of the file, for errors.
func ReadCalibration(name string, r io.Reader) (*Calibration, error) {
	d, err := readDocument(name, "calibration", r)
	if err != nil {
		return nil, err
	}
	var c Calibration
	if err := d.decodeYAML(&c); err != nil {
		return nil, err
	}
	if c.GPU == "" {
		return nil, fmt.Errorf("%s: no gpu: a calibration holds for one kind of GPU", name)
	}
	for _, f := range []struct {
		key   string
		value float64
	}{{"compute", c.Factors.Compute}, {"nvlink", c.Factors.NVLink}, {"nic", c.Factors.NIC}, {"host", c.Factors.Host}} {
		if f.value == 0 {
			return nil, fmt.Errorf("%s: factors.%s is missing or 0; 1 changes nothing", name, f.key)
		}
	}
	if err := c.Factors.Of().Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if m := c.Memory; m != nil && !(m.OffsetGiB >= -maxOffset && m.OffsetGiB <= maxOffset) {
		return nil, fmt.Errorf("%s: memory.offset_gib %g does not lie between %d and %d", name, m.OffsetGiB, -maxOffset, maxOffset)
	}
	return &c, nil
}

// WriteCalibration writes a calibration for --calibration.
func WriteCalibration(w io.Writer, c *Calibration) error {
	body, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "# Written by moeplan calibrate and moeplan verify --calibrate; pass it with --calibration. Factors multiply the model's times: 1.2 is a fifth slower.\n"+
		"# The errors are of step times, mean size: without the fit, and of each run when the others alone were fitted.\n%s", body)
	return err
}
