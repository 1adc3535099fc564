package evidence

import (
	"math"
	"strconv"
)

// Value is a figure that may be unknown. Its zero is unknown.
type Value struct {
	V     float64
	Known bool
}

// known is the Value of a figure.
func known(v float64) Value { return Value{v, true} }

// Finite reports whether the figure is known and a number.
func (v Value) Finite() bool { return v.Known && !math.IsNaN(v.V) && !math.IsInf(v.V, 0) }

// MarshalJSON writes null for what is unknown, and a string for what JSON has no number for.
func (v Value) MarshalJSON() ([]byte, error) {
	switch {
	case !v.Known:
		return []byte("null"), nil
	case math.IsNaN(v.V):
		return []byte(`"NaN"`), nil
	case math.IsInf(v.V, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(v.V, -1):
		return []byte(`"-Infinity"`), nil
	}
	return strconv.AppendFloat(nil, v.V, 'g', -1, 64), nil
}

// Bytes is an amount of memory that may be unknown.
type Bytes struct {
	N     int64
	Known bool
}

// MarshalJSON writes null for what is unknown.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if !b.Known {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, b.N, 10), nil
}

// GiB is the amount in 2^30 bytes.
func (b Bytes) GiB() float64 { return float64(b.N) / (1 << 30) }

// Index counts from 0, as ranks and stages do; below 0 it is unknown.
type Index int

// MarshalJSON writes null for what is unknown.
func (i Index) MarshalJSON() ([]byte, error) {
	if i < 0 {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(i), 10), nil
}

// Ordinal counts from 1, as iterations and lines do; 0 is unknown.
type Ordinal int

// MarshalJSON writes null for what is unknown.
func (o Ordinal) MarshalJSON() ([]byte, error) {
	if o < 1 {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(o), 10), nil
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// toBytes is an amount in some unit; figures that no memory has are unknown.
func toBytes(v, unit float64) Bytes {
	n := math.Round(v * unit)
	if !(n >= 0 && n < 1<<53) {
		return Bytes{}
	}
	return Bytes{int64(n), true}
}

// LimitError is an input that is larger than is read.
type LimitError struct{ What string }

func (e *LimitError) Error() string { return "evidence: " + e.What }
