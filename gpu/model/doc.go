// Package model reads model geometries and makes weights.
package model
