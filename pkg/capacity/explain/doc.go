// Package explain contains the reasons of capacity decisions and the problems that a user can solve, with the texts of both. A Reason and a
// Finding are plain values. Text renders them on demand with the names of the group, and no decision reads a text.
package explain
