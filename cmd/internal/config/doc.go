// Package config reads what people write beside moeplan, as YAML: platforms and models of their own, settings (moeplan.yaml)
// and calibrations. It is strict: an unknown or repeated key, or a figure that cannot be meant, is an error that names its
// place in the file.
package config
