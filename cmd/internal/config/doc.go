// Package config reads what people write beside moeplan: platforms of their own, as YAML. It is strict: an unknown or
// repeated key, or a figure that cannot be meant, is an error with its line and an excerpt of the file.
package config
